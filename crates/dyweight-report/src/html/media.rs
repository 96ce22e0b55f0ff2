//! What is looked at: charts and pictures.

use crate::canvas::Canvas;
use crate::figure::Figure;
use dyweight_core::error::Result;
use dyweight_files::image::Image;

/// Width of a chart's drawing for narrow screens: a phone of 360 px less its margins.
const NARROW: f64 = 328.0;

/// A drawn figure with the values behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub(super) caption: String,
    pub(super) wide: Canvas,
    /// The same for a narrow screen, where the wide one does not fit.
    pub(super) narrow: Option<Canvas>,
}

impl Chart {
    /// Draws the figure, in a second layout too if it is too wide for a phone.
    pub fn new(caption: impl Into<String>, figure: &Figure) -> Result<Self> {
        let wide = figure.draw()?;
        let narrow = if wide.width > NARROW { Some(figure.draw_narrow(NARROW)?) } else { None };
        // Both note the same values in the same order, unless a panel had no room left for its plot: then a phone, too,
        // is better served by the wide one.
        let narrow = narrow.filter(|n| n.spots.len() == wide.spots.len());
        Ok(Self { caption: caption.into(), wide, narrow })
    }
}

/// Two pictures of the same thing under a slider.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    pub(super) caption: String,
    pub(super) left: (String, Image),
    pub(super) right: (String, Image),
    /// What both are measured by, and what they lack of it.
    pub(super) beside: Vec<(String, Image)>,
    /// Drawings on white, which turn dark with the page.
    pub(super) drawn: bool,
}

impl Compare {
    /// Each picture with its label; the right one is shown at the size of the left one.
    pub fn new(
        caption: impl Into<String>,
        left: (impl Into<String>, Image),
        right: (impl Into<String>, Image),
    ) -> Self {
        let (left, right) = ((left.0.into(), left.1), (right.0.into(), right.1));
        Self { caption: caption.into(), left, right, beside: Vec::new(), drawn: false }
    }

    /// With another picture beside them.
    pub fn with(mut self, label: impl Into<String>, image: Image) -> Self {
        self.beside.push((label.into(), image));
        self
    }

    /// Says that the pictures are drawings on white.
    pub fn drawn(self, drawn: bool) -> Self {
        Self { drawn, ..self }
    }

    /// All its pictures.
    pub(super) fn all(&self) -> impl Iterator<Item = &(String, Image)> {
        [&self.left, &self.right].into_iter().chain(&self.beside)
    }
}

/// Pictures side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Gallery {
    pub(super) caption: String,
    pub(super) columns: usize,
    pub(super) items: Vec<(String, Image)>,
    /// Drawings on white, which turn dark with the page.
    pub(super) drawn: bool,
}

impl Gallery {
    /// At most `columns` pictures in a row; fewer where the screen is narrow.
    pub fn new(caption: impl Into<String>, columns: usize) -> Self {
        Self { caption: caption.into(), columns: columns.max(1), items: Vec::new(), drawn: false }
    }

    /// Says that the pictures are drawings on white.
    pub fn drawn(self, drawn: bool) -> Self {
        Self { drawn, ..self }
    }

    /// Adds a picture.
    pub fn with(mut self, label: impl Into<String>, image: Image) -> Self {
        self.items.push((label.into(), image));
        self
    }
}

/// Wider pictures are drawings, or are shown smaller than they are: their pixels are not meant to be seen.
pub(super) const FINE: usize = 560;

/// The whole number of screen pixels to a picture's pixel that brings it closest to `width` from below, at least 1.
pub(super) fn magnification(image: &Image, width: usize) -> usize {
    (width / image.width()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pictures_grow_by_whole_numbers() {
        let image = |side: usize| Image::new(side, side, 1, vec![0; side * side]).unwrap();
        assert_eq!([1, 28, 200, 900].map(|side| magnification(&image(side), 560)), [560, 20, 2, 1]);
    }
}
