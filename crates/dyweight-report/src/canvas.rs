//! A display list: what a drawing consists of, before it becomes SVG text or pixels.
//!
//! Both renderings walk the same list, so they show the same layout. Coordinates are CSS pixels (1/96 inch), y
//! grows downwards. SVG keeps text as `<text>` (small, searchable, editable) with a font stack whose members share
//! the metrics of the embedded font; PNG draws the embedded font's outlines. The same list gives the same bytes.

use super::font;
use super::palette::Colour;
use super::{raster, svg};
use dyweight_core::error::{Error, Result};
use dyweight_files::image::{self, Image};
use std::path::{Path, PathBuf};

/// A place on the canvas.
pub type Point = (f64, f64);

/// An upright rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

impl Rect {
    /// Left edge, upper edge, width, height.
    pub fn new(x: f64, y: f64, w: f64, h: f64) -> Self {
        Self { x, y, w, h }
    }

    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.h
    }

    /// The middle.
    pub fn centre(&self) -> Point {
        (self.x + self.w / 2.0, self.y + self.h / 2.0)
    }

    /// True for points inside or on the edge.
    pub fn contains(&self, (x, y): Point) -> bool {
        x >= self.x && x <= self.right() && y >= self.y && y <= self.bottom()
    }
}

/// Dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// Unbroken.
    Solid,
    /// Long dashes.
    Dashed,
    /// Dots.
    Dotted,
}

impl Dash {
    /// Lengths of ink and gap in units of the line's width.
    pub(super) fn pattern(self) -> Option<[f64; 2]> {
        match self {
            Dash::Solid => None,
            Dash::Dashed => Some([3.5, 2.2]),
            Dash::Dotted => Some([1.0, 1.6]),
        }
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub colour: Colour,
    /// Its width.
    pub width: f64,
    /// Its pattern.
    pub dash: Dash,
}

impl Stroke {
    /// An unbroken line.
    pub fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: Dash::Solid }
    }
}

/// Which part of a text its anchor point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// How text looks. The anchor is on the vertical middle of the small letters' band, so that text centres on ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextStyle {
    /// Font size.
    pub size: f64,
    /// Heavy face.
    pub bold: bool,
    /// Its colour.
    pub colour: Colour,
    /// Where the anchor is.
    pub align: Align,
    /// Reads from bottom to top.
    pub upward: bool,
}

/// One entry of the display list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Shape { outline: Outline, fill: Option<Colour>, stroke: Option<Stroke> },
    Text { text: String, at: Point, style: TextStyle },
    Picture { image: Image, area: Rect },
    Clip(Rect),
    Unclip,
}

/// Geometry of a shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outline {
    Line { points: Vec<Point>, closed: bool },
    Circle { centre: Point, radius: f64 },
    Segments(Vec<[Point; 2]>),
}

/// A value a reader can ask for by pointing at it. Pages show it; SVG and PNG files do not hold it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Where it is drawn.
    pub at: Point,
    /// Title of its panel; may be empty.
    pub panel: String,
    /// Which line, bars or row it belongs to; may be empty.
    pub series: String,
    /// Where it stands, with the axis's name.
    pub place: String,
    /// What it is, with the axis's name and its error.
    pub value: String,
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) items: Vec<Item>,
    pub(super) spots: Vec<Spot>,
}

impl Canvas {
    /// The largest width or height.
    pub const MAX_SIDE: f64 = 4096.0;

    /// A white sheet; sizes are rounded up and kept within 1 and [`Canvas::MAX_SIDE`].
    pub fn new(width: f64, height: f64) -> Self {
        let side = |v: f64| v.ceil().clamp(1.0, Self::MAX_SIDE);
        Self { width: side(width), height: side(height), items: Vec::new(), spots: Vec::new() }
    }

    /// The whole sheet.
    pub fn area(&self) -> Rect {
        Rect::new(0.0, 0.0, self.width, self.height)
    }

    /// A straight line.
    pub fn line(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.polyline(&[from, to], stroke);
    }

    /// Connected straight lines. Where a point is not finite (or a million pixels away) the line is broken.
    pub fn polyline(&mut self, points: &[Point], stroke: Stroke) {
        for run in points.split(|p| !drawable(*p)).filter(|run| run.len() > 1) {
            let outline = Outline::Line { points: run.to_vec(), closed: false };
            self.items.push(Item::Shape { outline, fill: None, stroke: Some(stroke) });
        }
    }

    /// Many separate straight lines of one look, as one shape.
    pub fn segments(&mut self, segments: &[[Point; 2]], stroke: Stroke) {
        let sound: Vec<_> = segments.iter().filter(|s| drawable(s[0]) && drawable(s[1])).copied().collect();
        if !sound.is_empty() {
            self.items.push(Item::Shape { outline: Outline::Segments(sound), fill: None, stroke: Some(stroke) });
        }
    }

    /// A filled shape with straight edges; nothing if a corner is not finite.
    pub fn polygon(&mut self, corners: &[Point], fill: Option<Colour>, stroke: Option<Stroke>) {
        if corners.len() > 2 && corners.iter().all(|p| drawable(*p)) {
            let outline = Outline::Line { points: corners.to_vec(), closed: true };
            self.items.push(Item::Shape { outline, fill, stroke });
        }
    }

    /// An upright rectangle.
    pub fn rect(&mut self, r: Rect, fill: Option<Colour>, stroke: Option<Stroke>) {
        self.polygon(&[(r.x, r.y), (r.right(), r.y), (r.right(), r.bottom()), (r.x, r.bottom())], fill, stroke);
    }

    /// A disc or ring; nothing if its centre is not finite.
    pub fn circle(&mut self, centre: Point, radius: f64, fill: Option<Colour>, stroke: Option<Stroke>) {
        if drawable(centre) && radius.is_finite() && radius > 0.0 {
            self.items.push(Item::Shape { outline: Outline::Circle { centre, radius }, fill, stroke });
        }
    }

    /// A line of text.
    pub fn text(&mut self, text: &str, at: Point, style: TextStyle) {
        if drawable(at) && !text.is_empty() {
            self.items.push(Item::Text { text: text.to_owned(), at, style });
        }
    }

    /// A picture stretched over an area, pixels kept as squares.
    pub fn picture(&mut self, image: &Image, area: Rect) {
        if drawable((area.x, area.y)) && area.w > 0.0 && area.h > 0.0 {
            self.items.push(Item::Picture { image: image.clone(), area });
        }
    }

    /// Notes a value that can be asked for; nothing if it has no place on the sheet.
    pub fn spot(&mut self, spot: Spot) {
        if drawable(spot.at) && self.area().contains(spot.at) {
            self.spots.push(spot);
        }
    }

    /// Draws only what falls into `area`. Clips do not nest: an inner one replaces the outer one.
    pub fn clipped(&mut self, area: Rect, draw: impl FnOnce(&mut Self)) {
        self.items.push(Item::Clip(area));
        draw(self);
        self.items.push(Item::Unclip);
    }

    /// As the text of an SVG file.
    pub fn to_svg(&self) -> String {
        svg::render(self)
    }

    /// As the bytes of a PNG file, `scale` device pixels to a canvas pixel.
    pub fn to_png(&self, scale: f64) -> Result<Vec<u8>> {
        if !(0.1..=4.0).contains(&scale) {
            return Err(Error::bad_value("scale", scale, "between 0.1 and 4"));
        }
        Ok(raster::render(self, scale))
    }

    /// Writes `stem.svg` and `stem.png` (two device pixels to a canvas pixel).
    pub fn write(&self, stem: &Path) -> Result<()> {
        let named = |extension: &str| {
            let mut name = stem.as_os_str().to_owned();
            name.push(extension);
            PathBuf::from(name)
        };
        image::write(&named(".svg"), self.to_svg().as_bytes())?;
        image::write(&named(".png"), &self.to_png(2.0)?)
    }
}

/// Width of a text in the embedded font.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    font::width(text, size, bold)
}

/// False for what is not finite, and for what lies so far out that no renderer's f32 could hold it.
fn drawable((x, y): Point) -> bool {
    x.abs() < 1e6 && y.abs() < 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_are_not_finite_break_lines_and_drop_shapes() {
        let mut canvas = Canvas::new(10.0, 10.0);
        let pen = Stroke::solid(Colour::rgb(0, 0, 0), 1.0);
        canvas.polyline(&[(0.0, 0.0), (1.0, 1.0), (f64::NAN, 2.0), (3.0, 3.0), (4.0, 4.0)], pen);
        assert_eq!(canvas.items.len(), 2);
        canvas.polygon(&[(0.0, 0.0), (1.0, 1.0), (f64::INFINITY, 2.0)], None, Some(pen));
        canvas.circle((f64::NAN, 0.0), 1.0, None, Some(pen));
        assert_eq!(canvas.items.len(), 2);
    }

    #[test]
    fn sizes_stay_within_bounds() {
        assert_eq!(Canvas::new(f64::INFINITY, -3.0).area(), Rect::new(0.0, 0.0, Canvas::MAX_SIDE, 1.0));
        assert!(Canvas::new(1.0, 1.0).to_png(0.0).is_err());
        assert!(Canvas::new(1.0, 1.0).to_png(f64::NAN).is_err());
    }
}
