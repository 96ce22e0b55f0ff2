//! Pretrained networks on the engine, and how models are opened by name or file.
#![forbid(unsafe_code)]

pub mod autoencoder;
mod blocks;
pub mod clip;
pub mod edm;
pub mod embedded;
mod feature_spec;
pub mod features;
pub mod inception;
pub mod latent;
mod memory;
mod side_by_side;
pub mod spec;
pub mod unet;
pub mod weights;

pub use feature_spec::FeatureSpec;
pub use memory::MemoryNeeds;
pub use spec::{LoadedModel, ModelSpec};

/// The instruction set networks run on in this process: `avx512`, `avx2` or `portable`.
pub fn instruction_set() -> &'static str {
    match dyweight_nn::Isa::active() {
        dyweight_nn::Isa::Avx512 => "avx512",
        dyweight_nn::Isa::Avx2 => "avx2",
        dyweight_nn::Isa::Portable => "portable",
    }
}
