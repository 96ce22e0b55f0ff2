//! Charts: drawn once as a display list, written as SVG and as PNG.
//!
//! A [`Figure`] holds panels ([`LineChart`], [`BarChart`], [`HeatMap`], [`Plane`]) and draws them onto a [`Canvas`],
//! which renders to both formats with the same layout. The same data gives the same bytes on every machine. Sizes
//! are CSS pixels; text is 10–11 px, which stays readable when a figure of 440 px is printed at the width of a
//! paper's column.

#![forbid(unsafe_code)]

mod axis;
mod bars;
mod canvas;
mod figure;
mod font;
mod frame;
mod heat;
pub mod html;
mod learned;
mod lines;
mod palette;
mod plane;
mod raster;
mod samples;
mod sheet;
mod svg;

pub use axis::change;
pub use axis::{Axis, Scale};
pub use bars::{BarChart, BarSeries};
pub use canvas::{Align, Canvas, Dash, Point, Rect, Spot, Stroke, TextStyle, text_width};
pub use figure::{Figure, Plot};
pub use frame::{Key, Marker};
pub use heat::HeatMap;
pub use learned::{LossCurve, coefficients};
pub use lines::{LineChart, Series};
pub use palette::{Colour, FAINT, GREY, INK, category, diverging};
pub use plane::{Cloud, Field, Paths, Plane};
pub use samples::samples_in_plane;
pub use sheet::labelled_sheet;
