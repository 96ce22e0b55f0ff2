//! Which instruction set the kernels use, chosen once at run time.
//!
//! The best one the processor offers, unless the environment variable `DYWEIGHT_ISA` (`portable`, `avx2`, `avx512`)
//! asks for a lesser one. Tests force one for a scope with [`Isa::scope`]. Packed weights remember the instruction set
//! they were packed for, so operations built under different sets may be mixed.

use std::cell::Cell;
use std::sync::OnceLock;

use crate::simd::{Portable, Simd};
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};

/// An instruction set the engine has kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, vectorised by the compiler for the target's baseline.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

thread_local! {
    static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// All instruction sets this processor can run, the best last.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|isa| isa.is_supported()).collect()
    }

    /// The instruction set operations use when called from this thread.
    pub fn active() -> Self {
        FORCED.with(Cell::get).unwrap_or_else(Self::from_environment)
    }

    /// Runs `f` with this instruction set in force on the calling thread.
    ///
    /// # Panics
    /// If the processor does not have it.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        assert!(self.is_supported(), "this processor has no {self:?}");
        struct Restore(Option<Isa>);
        impl Drop for Restore {
            fn drop(&mut self) {
                FORCED.with(|cell| cell.set(self.0));
            }
        }
        let _restore = Restore(FORCED.with(|cell| cell.replace(Some(self))));
        f()
    }

    fn from_environment() -> Self {
        static CHOICE: OnceLock<Isa> = OnceLock::new();
        *CHOICE.get_or_init(|| {
            let best = *Self::available().last().expect("the portable path is always there");
            let asked = match std::env::var("DYWEIGHT_ISA").as_deref() {
                Ok("portable") => Self::Portable,
                Ok("avx2") => Self::Avx2,
                _ => Self::Avx512,
            };
            asked.min(best)
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Avx2 => {
                // Every processor with AVX2 has had F16C, too.
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("fma")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_supported(self) -> bool {
        self == Self::Portable
    }

    /// Width in floats of one packed panel of weights.
    pub(crate) fn panel_width(self) -> usize {
        self.run(Widths).1
    }

    /// Floats in a vector.
    pub(crate) fn lanes(self) -> usize {
        self.run(Widths).0
    }

    /// Runs a kernel written against [`Simd`], compiled for this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Portable => kernel.run::<Portable>(),
            // SAFETY: values of these variants reach here only through `active`, `scope` or `available`, all of which
            // have asked the processor.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => kernel.run::<Portable>(),
        }
    }

    /// Runs a plain loop, compiled for this instruction set so that the compiler vectorises it accordingly. `body` must
    /// be `#[inline(always)]`: a closure that is called instead is compiled for the baseline.
    #[inline]
    pub(crate) fn vectorize<R>(self, body: impl FnOnce() -> R) -> R {
        self.run(Plain(body))
    }
}

/// A piece of work compiled once per instruction set; `run` must be `#[inline(always)]`.
pub(crate) trait Kernel {
    type Output;
    fn run<S: Simd>(self) -> Self::Output;
}

/// Asks an instruction set for its vector and panel widths.
struct Widths;

impl Kernel for Widths {
    type Output = (usize, usize);
    #[inline(always)]
    fn run<S: Simd>(self) -> (usize, usize) {
        (S::LANES, S::PANEL)
    }
}

struct Plain<F>(F);

impl<R, F: FnOnce() -> R> Kernel for Plain<F> {
    type Output = R;
    #[inline(always)]
    fn run<S: Simd>(self) -> R {
        (self.0)()
    }
}

/// # Safety
/// The processor must have AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

/// # Safety
/// The processor must have these parts of AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_forces_and_restores() {
        let before = Isa::active();
        Isa::Portable.scope(|| assert_eq!(Isa::active(), Isa::Portable));
        assert_eq!(Isa::active(), before);
    }
}
