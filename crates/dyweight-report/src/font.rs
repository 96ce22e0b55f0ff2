//! The embedded font: widths for layout, outlines for pixels.
//!
//! A subset of DejaVu Sans (`assets/fonts` of this crate, made by `tools/subset_font.py`): ASCII, Latin-1, Greek and
//! the signs of formulas. A character it lacks is drawn as the font's empty box. No kerning, so that widths add up.

use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

static REGULAR: LazyLock<Face<'static>> = LazyLock::new(|| face(include_bytes!("../assets/fonts/plot-regular.ttf")));
static BOLD: LazyLock<Face<'static>> = LazyLock::new(|| face(include_bytes!("../assets/fonts/plot-bold.ttf")));

/// From the anchor down to the baseline, in units of the font size: half the height of figures and small letters.
pub(super) const MIDDLE: f64 = 0.36;

/// The font stack for viewers: the font itself, then fonts of nearly the same widths.
pub(super) const FAMILY: &str = "DejaVu Sans, Bitstream Vera Sans, Verdana, sans-serif";

fn face(bytes: &'static [u8]) -> Face<'static> {
    Face::parse(bytes, 0).expect("the embedded font is sound")
}

fn pick(bold: bool) -> &'static Face<'static> {
    if bold { &BOLD } else { &REGULAR }
}

fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).unwrap_or(GlyphId(0))
}

fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / f64::from(face.units_per_em())
}

/// Width of a text.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let face = pick(bold);
    text.chars().map(|c| advance(face, glyph(face, c))).sum::<f64>() * size
}

/// Outlines of a text that starts at `x` = 0 on the baseline, y downwards; `pen` receives them scaled to `size`.
pub(super) fn outline(text: &str, size: f64, bold: bool, pen: &mut tiny_skia::PathBuilder) {
    let face = pick(bold);
    let scale = (size / f64::from(face.units_per_em())) as f32;
    let mut x = 0.0;
    for c in text.chars() {
        let glyph = glyph(face, c);
        face.outline_glyph(glyph, &mut Pen { path: pen, x: x as f32, scale });
        x += advance(face, glyph) * size;
    }
}

struct Pen<'a> {
    path: &'a mut tiny_skia::PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subset_has_what_charts_write() {
        for bold in [false, true] {
            for c in "AZaz09 −×·±≤≥≈∞→√∑‖ℓαβεσΔθ⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₉éü".chars()
            {
                assert!(pick(bold).glyph_index(c).is_some(), "{c}");
            }
        }
    }

    #[test]
    fn widths_add_up_and_scale() {
        let sum = width("AB", 10.0, false) + width("−3", 10.0, false);
        assert!((width("AB−3", 10.0, false) - sum).abs() < 1e-9);
        assert!((width("AB−3", 20.0, false) - 2.0 * sum).abs() < 1e-9);
        assert!(width("\u{4e2d}", 10.0, false) > 0.0, "an unknown character still takes room");
    }
}
