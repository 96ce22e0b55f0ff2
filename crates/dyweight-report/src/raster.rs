//! Display list → pixels → PNG bytes.

use super::canvas::{Align, Canvas, Item, Outline, Point, Rect, Stroke, TextStyle};
use super::font;
use super::palette::Colour;
use dyweight_files::image::{self, Image};
use tiny_skia::{FillRule, FilterQuality, Mask, Paint, Path, PathBuilder, Pixmap, PixmapPaint, StrokeDash, Transform};

/// Width and height are within the canvas's bounds and `scale` at most 4, so the sheet always fits in memory.
pub(super) fn render(canvas: &Canvas, scale: f64) -> Vec<u8> {
    let side = |v: f64| ((v * scale).ceil() as u32).clamp(1, 16384);
    let pixmap = Pixmap::new(side(canvas.width), side(canvas.height)).expect("a size between 1 and 16384");
    let mut sheet = Sheet { pixmap, transform: Transform::from_scale(scale as f32, scale as f32), mask: None };
    sheet.pixmap.fill(tiny_skia::Color::WHITE);
    for item in &canvas.items {
        match item {
            Item::Shape { outline, fill, stroke } => sheet.shape(outline, *fill, *stroke),
            Item::Text { text, at, style } => sheet.text(text, *at, style),
            Item::Picture { image, area } => sheet.picture(image, *area),
            Item::Clip(area) => sheet.clip(*area),
            Item::Unclip => sheet.mask = None,
        }
    }
    // The sheet began opaque, so alpha is 255 everywhere and need not be stored.
    let rgb: Vec<u8> = sheet.pixmap.data().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
    let (width, height) = (sheet.pixmap.width() as usize, sheet.pixmap.height() as usize);
    image::encode_png(width, height, png::ColorType::Rgb, &rgb)
}

struct Sheet {
    pixmap: Pixmap,
    transform: Transform,
    mask: Option<Mask>,
}

impl Sheet {
    fn shape(&mut self, outline: &Outline, fill: Option<Colour>, stroke: Option<Stroke>) {
        let Some(path) = path(outline) else { return };
        if let Some(colour) = fill {
            self.fill(&path, colour, self.transform);
        }
        if let Some(stroke) = stroke {
            let dash = stroke.dash.pattern().and_then(|pattern| {
                StrokeDash::new(pattern.map(|length| (length * stroke.width) as f32).to_vec(), 0.0)
            });
            let line_join = tiny_skia::LineJoin::Round;
            let pen = tiny_skia::Stroke { width: stroke.width as f32, dash, line_join, ..Default::default() };
            self.pixmap.stroke_path(&path, &paint(stroke.colour), &pen, self.transform, self.mask.as_ref());
        }
    }

    fn fill(&mut self, path: &Path, colour: Colour, transform: Transform) {
        self.pixmap.fill_path(path, &paint(colour), FillRule::Winding, transform, self.mask.as_ref());
    }

    fn text(&mut self, text: &str, (x, y): Point, style: &TextStyle) {
        let mut pen = PathBuilder::new();
        font::outline(text, style.size, style.bold, &mut pen);
        let Some(path) = pen.finish() else { return };
        let width = font::width(text, style.size, style.bold);
        let back = match style.align {
            Align::Start => 0.0,
            Align::Middle => width / 2.0,
            Align::End => width,
        };
        let turn = if style.upward { Transform::from_rotate(-90.0) } else { Transform::identity() };
        let local = Transform::from_translate(-back as f32, (font::MIDDLE * style.size) as f32);
        let place = local.post_concat(turn).post_translate(x as f32, y as f32).post_concat(self.transform);
        self.fill(&path, style.colour, place);
    }

    fn picture(&mut self, image: &Image, area: Rect) {
        let rgba: Vec<u8> = image.to_rgb().data().chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
        let (width, height) = (image.width() as u32, image.height() as u32);
        let Some(size) = tiny_skia::IntSize::from_wh(width, height) else { return };
        let Some(pixels) = Pixmap::from_vec(rgba, size) else { return };
        let stretch = Transform::from_scale((area.w / f64::from(width)) as f32, (area.h / f64::from(height)) as f32);
        let place = stretch.post_translate(area.x as f32, area.y as f32).post_concat(self.transform);
        let paint = PixmapPaint { quality: FilterQuality::Nearest, ..Default::default() };
        self.pixmap.draw_pixmap(0, 0, pixels.as_ref(), &paint, place, self.mask.as_ref());
    }

    fn clip(&mut self, area: Rect) {
        let rect = tiny_skia::Rect::from_xywh(area.x as f32, area.y as f32, area.w as f32, area.h as f32);
        self.mask = rect.zip(Mask::new(self.pixmap.width(), self.pixmap.height())).map(|(rect, mut mask)| {
            mask.fill_path(&PathBuilder::from_rect(rect), FillRule::Winding, true, self.transform);
            mask
        });
    }
}

fn path(outline: &Outline) -> Option<Path> {
    match outline {
        Outline::Circle { centre: (x, y), radius } => PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32),
        Outline::Segments(segments) => {
            let mut builder = PathBuilder::new();
            for [(x0, y0), (x1, y1)] in segments {
                builder.move_to(*x0 as f32, *y0 as f32);
                builder.line_to(*x1 as f32, *y1 as f32);
            }
            builder.finish()
        }
        Outline::Line { points, closed } => {
            let mut builder = PathBuilder::new();
            for (index, (x, y)) in points.iter().enumerate() {
                match index {
                    0 => builder.move_to(*x as f32, *y as f32),
                    _ => builder.line_to(*x as f32, *y as f32),
                }
            }
            if *closed {
                builder.close();
            }
            builder.finish()
        }
    }
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour.r, colour.g, colour.b, colour.a);
    paint.anti_alias = true;
    paint
}
