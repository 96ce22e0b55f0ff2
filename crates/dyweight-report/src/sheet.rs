//! Images side by side, each with a word below it.

use super::canvas::{Align, Canvas, Rect, TextStyle, text_width};
use super::frame::{LABEL, text};
use dyweight_core::error::{Error, Result};
use dyweight_files::image::Image;

/// Between and around images.
const GAP: f64 = 2.0;
/// For the word below an image.
const LINE: f64 = 15.0;

/// Images of one size in rows of `columns`, pixels enlarged to squares of `factor`, with their labels; none if the
/// sheet would be too large.
pub fn labelled_sheet(images: &[(Image, String)], columns: usize, factor: usize) -> Result<Option<Canvas>> {
    let Some((first, _)) = images.first().filter(|_| columns > 0) else {
        let expected = "at least one image and one column";
        return Err(Error::bad_value("columns", format!("{columns} for {}", images.len()), expected));
    };
    let columns = columns.min(images.len());
    let (w, h) = ((first.width() * factor) as f64, (first.height() * factor) as f64);
    let rows = images.len().div_ceil(columns);
    let (width, height) = (columns as f64 * (w + GAP) + GAP, rows as f64 * (h + LINE + GAP) + GAP);
    if width > Canvas::MAX_SIDE || height > Canvas::MAX_SIDE {
        return Ok(None);
    }
    let mut canvas = Canvas::new(width, height);
    for (index, (image, label)) in images.iter().enumerate() {
        let (row, column) = ((index / columns) as f64, (index % columns) as f64);
        let (x, y) = (GAP + column * (w + GAP), GAP + row * (h + LINE + GAP));
        canvas.picture(image, Rect::new(x, y, w, h));
        // A long word on a small image is set smaller.
        let size = LABEL * (w / text_width(label, LABEL, false).max(1.0)).min(1.0);
        let style = TextStyle { size, ..text(LABEL, Align::Middle) };
        canvas.text(label, (x + w / 2.0, y + h + LINE / 2.0), style);
    }
    Ok(Some(canvas))
}
