//! Latent diffusion models: a denoiser of latents, an autoencoder that makes images of them, a text encoder that says
//! of what.
//!
//! ```text
//! bundle    a folder or file → its parts, by content
//! parts     a part's configuration and tensors → the network
//! schedule  which noise table, and what the network predicts
//! precond   network F → denoiser D
//! network   what a denoiser of latents has to offer
//! bound     D with its contexts, as solvers see it
//! probe     a part alone, at given inputs
//! random    released models with random weights
//! summary   what a model is and will need, without reading its weights
//! model     all together, as commands see it
//! flow      the same of a flow: FLUX
//! texts     text encoders, opened when they are asked and let go
//! on_demand what is open only while it is used
//! ```

mod bound;
mod bundle;
mod flow;
mod images;
mod model;
mod network;
mod on_demand;
mod parts;
mod precond;
mod probe;
mod random;
mod schedule;
mod summary;
mod texts;

pub use crate::preconditioned::Target;
pub use bundle::Bundle;
pub use flow::FlowModel;
pub use images::ImageDecoder;
pub use model::{LatentModel, Settings};
pub use probe::{PARTS, probe};
pub(crate) use random::Family;
pub use random::RANDOM;
pub use summary::{PartSummary, Summary};
