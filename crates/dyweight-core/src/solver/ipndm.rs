//! Improved PNDM (Zhang and Chen 2023): Adams–Bashforth weights of a uniform grid on a grid that is not uniform.
//!
//! ```text
//! x ← x + (t_{i+1} − t_i)·Σⱼ bⱼ·d_{i−j}     b: (1) | (3,−1)/2 | (23,−16,5)/12 | (55,−59,37,−9)/24
//! ```
//!
//! The first steps use the slopes there are, so the method starts with Euler and converges with order 2 at most,
//! whatever its nominal order. Order 1 is Euler, alias DDIM.

use super::table::StepTable;
use super::{Run, Solver, Times, check_order};
use crate::denoiser::Prediction;
use crate::error::Result;

/// iPNDM of order 1 to 4.
pub struct Ipndm {
    order: usize,
}

impl Ipndm {
    /// The highest order.
    pub const HIGHEST: usize = 4;

    /// iPNDM of the given order.
    pub fn new(order: usize) -> Result<Self> {
        Ok(Self { order: check_order("ipndm", order, Self::HIGHEST)? })
    }

    /// Euler's method, which DDIM is in this parametrisation.
    pub fn euler() -> Self {
        Self { order: 1 }
    }
}

/// Adams–Bashforth weights of order 1 to 4, newest slope first; empty for other orders.
pub fn adams_bashforth(order: usize) -> &'static [f64] {
    match order {
        1 => &[1.0],
        2 => &[1.5, -0.5],
        3 => &[23.0 / 12.0, -16.0 / 12.0, 5.0 / 12.0],
        4 => &[55.0 / 24.0, -59.0 / 24.0, 37.0 / 24.0, -9.0 / 24.0],
        _ => &[],
    }
}

impl Solver for Ipndm {
    fn label(&self) -> String {
        if self.order == 1 { "euler".into() } else { format!("ipndm({})", self.order) }
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        let row = |i: usize, q: usize| {
            let length = &times[i + 1] - &times[i];
            adams_bashforth(q).iter().map(|b| &length * *b).collect()
        };
        Ok(StepTable::build(times, self.order, row).run())
    }
}
