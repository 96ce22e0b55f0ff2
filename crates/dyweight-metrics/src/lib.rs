//! What is measured, each with its standard error and the number of samples behind it; never a bare number.
//!
//! ```text
//! teacher            distance to what the same noise gives with many calls: RMSE, PSNR
//! frechet            Fréchet distance of features to a reference set; FID where the features are Inception's
//! kid                kernel distance of features, unbiased at any number of samples
//! precision_recall   share of samples that look real, and of real images that samples cover
//! ```
//!
//! Features are gathered in [`Features`]; everything after is a function of their rows, whose order is that of the
//! images: the same bits for any batch and number of threads. [`Provenance`] says what a number may be compared with.

#![forbid(unsafe_code)]

mod estimate;
mod features;
pub mod frechet;
mod kid;
pub mod linalg;
mod named;
mod precision_recall;
mod provenance;
mod reference;
pub mod teacher;

pub use estimate::Estimate;
pub use features::{Features, quantise};
pub use kid::kid;
pub use named::{BUILT_IN_REFERENCE, statistics};
pub use precision_recall::{NEIGHBOURS, PrecisionRecall, precision_recall, variety};
pub use provenance::{FieldCount, Origin, Provenance};
pub use reference::{FeatureReference, reference, second_network};
