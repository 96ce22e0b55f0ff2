//! Models, each in terms of engine operations or a closed form.

pub mod edm;
pub mod embedded;
pub mod features;
pub mod inception;
pub mod mixture;
mod side_by_side;

/// The instruction set networks run on in this process: `avx512`, `avx2` or `portable`.
pub fn instruction_set() -> &'static str {
    match dyweight_nn::Isa::active() {
        dyweight_nn::Isa::Avx512 => "avx512",
        dyweight_nn::Isa::Avx2 => "avx2",
        dyweight_nn::Isa::Portable => "portable",
    }
}
