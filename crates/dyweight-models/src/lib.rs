//! Pretrained networks on the engine, and how models are opened by name or file.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod autoencoder;
pub mod blip;
mod blocks;
pub mod clip;
mod decoded;
pub mod edm;
pub mod embedded;
mod exchange;
pub mod fashion_judge;
mod feature_spec;
pub mod features;
pub mod flux;
mod hub;
pub mod inception;
mod joined;
pub mod latent;
mod memory;
mod mixture_file;
pub mod pixels;
pub mod preconditioned;
pub mod preprocess;
pub mod scorer;
mod side_by_side;
pub mod spec;
pub mod t5;
pub mod unet;
pub mod weights;

pub use arithmetic::Arithmetic;
pub use decoded::DecodedFeatures;
pub use dyweight_nn::Precision;
pub use feature_spec::FeatureSpec;
pub use joined::JoinedFeatures;
pub use memory::MemoryNeeds;
pub use scorer::{ScoreKind, Scorer, ScorerSpec};
pub use spec::{LoadedModel, ModelSpec};

/// The instruction set networks run on in this process: `avx512`, `avx2` or `portable`.
pub fn instruction_set() -> &'static str {
    match dyweight_nn::Isa::active() {
        dyweight_nn::Isa::Avx512 => "avx512",
        dyweight_nn::Isa::Avx2 => "avx2",
        dyweight_nn::Isa::Portable => "portable",
    }
}

/// How much memory the engine's buffers take now, and have taken at most since [`forget_peak`].
pub fn engine_memory() -> dyweight_nn::buffer::Usage {
    dyweight_nn::buffer::usage()
}

/// Gives back what the engine keeps for reuse, and counts the most it takes anew.
pub fn forget_peak() {
    dyweight_nn::buffer::release();
}

/// Multiplications and additions a second that all threads reach on a product of matrices, measured for about a tenth
/// of a second: what a network call in this precision will take can be told from it beforehand.
pub fn measured_rate(precision: Precision) -> f64 {
    const SIZE: usize = 512;
    let weights = dyweight_nn::Weights::from_f32([SIZE; 2], &vec![0.5; SIZE * SIZE]);
    let layer = weights.and_then(|weights| dyweight_nn::Linear::in_precision(precision.of_products(), weights, None));
    let Ok(layer) = layer.map(dyweight_nn::Linear::packed) else { return f64::NAN };
    let x = dyweight_nn::Act::zeros(dyweight_nn::Shape::tokens(1, SIZE, SIZE));
    let operations = 2.0 * (SIZE * SIZE * SIZE) as f64;
    let (started, mut best) = (std::time::Instant::now(), 0f64);
    while best == 0.0 || started.elapsed().as_secs_f64() < 0.1 {
        let once = std::time::Instant::now();
        drop(layer.forward(&x));
        best = best.max(operations / once.elapsed().as_secs_f64().max(1e-9));
    }
    best
}
