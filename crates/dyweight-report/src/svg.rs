//! Display list → SVG text.

use super::canvas::{Align, Canvas, Item, Outline, Point, Rect, Stroke, TextStyle};
use super::font;
use super::palette::Colour;
use dyweight_files::image::Image;
use std::fmt::Write;

/// The whole file.
pub(super) fn render(canvas: &Canvas) -> String {
    element(canvas, "", "xmlns=\"http://www.w3.org/2000/svg\"")
}

/// One element: `attributes` go into its tag, `prefix` makes its ids its own among others on a page.
pub(super) fn element(canvas: &Canvas, prefix: &str, attributes: &str) -> String {
    let (w, h) = (num(canvas.width), num(canvas.height));
    let mut out = format!(
        "<svg {attributes} width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
         font-family=\"{}\">\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n",
        font::FAMILY
    );
    for item in &canvas.items {
        match item {
            Item::Shape { outline, fill, stroke } => shape(&mut out, outline, *fill, *stroke),
            Item::Text { text, at, style } => write_text(&mut out, text, *at, style),
            Item::Picture { image, area } => picture(&mut out, image, *area),
            Item::Clip(area) => clip(&mut out, prefix, *area),
            Item::Unclip => out.push_str("</g>\n"),
        }
    }
    out.push_str("</svg>\n");
    out
}

fn shape(out: &mut String, outline: &Outline, fill: Option<Colour>, stroke: Option<Stroke>) {
    match outline {
        Outline::Circle { centre: (x, y), radius } => {
            let _ = write!(out, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", num(*x), num(*y), num(*radius));
        }
        Outline::Segments(segments) => {
            out.push_str("<path d=\"");
            for [(x0, y0), (x1, y1)] in segments {
                let _ = write!(out, "M{} {}L{} {}", num(*x0), num(*y0), num(*x1), num(*y1));
            }
            out.push('"');
        }
        Outline::Line { points, closed } => {
            out.push_str(if *closed { "<polygon points=\"" } else { "<polyline points=\"" });
            let places: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", num(*x), num(*y))).collect();
            let _ = write!(out, "{}\"", places.join(" "));
        }
    }
    match fill {
        Some(colour) => paint(out, "fill", colour),
        None => out.push_str(" fill=\"none\""),
    }
    if let Some(Stroke { colour, width, dash }) = stroke {
        paint(out, "stroke", colour);
        let _ = write!(out, " stroke-width=\"{}\" stroke-linejoin=\"round\"", num(width));
        if let Some([ink, gap]) = dash.pattern() {
            let _ = write!(out, " stroke-dasharray=\"{} {}\"", num(ink * width), num(gap * width));
        }
    }
    out.push_str("/>\n");
}

fn paint(out: &mut String, what: &str, colour: Colour) {
    let _ = write!(out, " {what}=\"#{:02x}{:02x}{:02x}\"", colour.r, colour.g, colour.b);
    if colour.a < 255 {
        let _ = write!(out, " {what}-opacity=\"{}\"", num(f64::from(colour.a) / 255.0));
    }
}

fn write_text(out: &mut String, text: &str, (x, y): Point, style: &TextStyle) {
    let drop = font::MIDDLE * style.size;
    let _ = write!(out, "<text font-size=\"{}\"", num(style.size));
    if style.upward {
        let _ = write!(out, " transform=\"translate({} {}) rotate(-90)\"", num(x + drop), num(y));
    } else {
        let _ = write!(out, " x=\"{}\" y=\"{}\"", num(x), num(y + drop));
    }
    match style.align {
        Align::Start => {}
        Align::Middle => out.push_str(" text-anchor=\"middle\""),
        Align::End => out.push_str(" text-anchor=\"end\""),
    }
    if style.bold {
        out.push_str(" font-weight=\"bold\"");
    }
    paint(out, "fill", style.colour);
    let _ = writeln!(out, ">{}</text>", escape(text));
}

fn picture(out: &mut String, image: &Image, area: Rect) {
    let _ = writeln!(
        out,
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
        num(area.x),
        num(area.y),
        num(area.w),
        num(area.h),
        base64(&image.to_png())
    );
}

/// The name is made of the rectangle: drawings put into one page cannot take each other's clips.
fn clip(out: &mut String, prefix: &str, area: Rect) {
    let [x, y, w, h] = [area.x, area.y, area.w, area.h].map(num);
    let _ = writeln!(
        out,
        "<clipPath id=\"{prefix}clip-{x}-{y}-{w}-{h}\"><rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>\
         </clipPath>\n<g clip-path=\"url(#{prefix}clip-{x}-{y}-{w}-{h})\">"
    );
}

/// A coordinate with at most two decimals and no trailing zeros.
pub(super) fn num(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Text that is safe inside XML; control characters, which XML forbids, become spaces.
fn escape(text: &str) -> String {
    escaped(text, |_| None)
}

/// Text in which what opens an element is escaped, control characters are spaces, and what `more` names is what it
/// says.
pub(super) fn escaped(text: &str, more: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match (c, more(c)) {
            (_, Some(own)) => out.push_str(own),
            ('&', _) => out.push_str("&amp;"),
            ('<', _) => out.push_str("&lt;"),
            ('>', _) => out.push_str("&gt;"),
            (c, _) if c.is_control() => out.push(' '),
            (c, _) => out.push(c),
        }
    }
    out
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            out.push(if digit > group.len() { '=' } else { char::from(DIGITS[index as usize]) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([num(1.0), num(-0.001), num(0.126), num(100.0)], ["1", "0", "0.13", "100"]);
    }

    #[test]
    fn base64_of_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("a<b> & \u{1}c"), "a&lt;b&gt; &amp;  c");
    }
}
