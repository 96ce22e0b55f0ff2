//! ODE solvers, one file per method.
//!
//! A [`Solver`] is immutable; what it remembers between steps lives in the [`Run`] it begins. The loop over steps is
//! [`crate::sample`]'s. Times arrive as [`Coeff`]s, so a learned grid is differentiated like any other coefficient.
//!
//! ```
//! use dyweight_core::solver::{DyWeight, Initial, Ipndm, Solver};
//! // DyWeight with Adams-Bashforth weights and no scales is iPNDM.
//! let rows = Initial::Ab.rows(5, 3);
//! assert_eq!(DyWeight::fixed(&rows, &vec![])?.label(), "dyweight(3)");
//! assert_eq!(Ipndm::new(3)?.label(), "ipndm(3)");
//! # Ok::<(), dyweight_core::Error>(())
//! ```

mod deis;
mod dpm2;
mod dpmpp;
mod dyweight;
mod exponential;
mod heun;
mod ipndm;
mod ipndm_v;
mod table;
mod unipc;
mod wider;

pub use deis::{Deis, DeisMode};
pub use dpm2::Dpm2;
pub use dpmpp::DpmPp;
pub use dyweight::{DyWeight, Initial, Rows, Scales, realised_times};
pub use exponential::{Evaluated, Form, LowerOrderFinal, Predict};
pub use heun::Heun;
pub use ipndm::{Ipndm, adams_bashforth};
pub use ipndm_v::IpndmV;
pub use table::StepTable;
pub use unipc::{UniPc, Variant};
pub use wider::{Place, Wider, WiderRun};

use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::{Error, Result};
use crate::tape::{Query, Tape, Var};
use std::ops::Deref;

/// A method for the probability-flow ODE.
pub trait Solver: Send + Sync {
    /// Its name with what distinguishes it, e.g. `ipndm(4)`.
    fn label(&self) -> String;

    /// Channels of the samples it can be used on, where that matters.
    fn channels(&self) -> Option<usize> {
        None
    }

    /// The grid of a run with what is told at its points; a method that learns this says so here.
    fn times<'s>(&'s self, times: &'s [Coeff]) -> Times<'s> {
        times.into()
    }

    /// Begins a run over the grid `times` for a kind of prediction.
    fn begin<'s>(&'s self, times: Times<'s>, prediction: Prediction) -> Result<Box<dyn Run + 's>>;

    /// Goes on with what a run of the same method, with other numbers, has carried so far: for training that moves the
    /// numbers between steps.
    fn resume<'s>(&'s self, times: Times<'s>, prediction: Prediction, carried: Carried) -> Result<Box<dyn Run + 's>> {
        if carried.samples.is_empty() && carried.coeffs.is_empty() {
            return self.begin(times, prediction);
        }
        Err(Error::conflict(
            format!("{} cannot be trained step by step", self.label()),
            "train it on whole trajectories",
        ))
    }
}

/// The grid of a run, as a slice of its times, and what the network is told at each.
#[derive(Clone, Copy)]
pub struct Times<'s> {
    times: &'s [Coeff],
    told: &'s [Coeff],
}

impl<'s> Times<'s> {
    /// The same grid with the network, and those who form slopes, told other times than its own: one for each.
    pub fn told(self, told: &'s [Coeff]) -> Self {
        Self { told, ..self }
    }

    /// What is asked at point `i` of the grid.
    pub fn query(&self, i: usize) -> Query {
        Query::at(&self.told[i])
    }
}

impl<'s> From<&'s [Coeff]> for Times<'s> {
    fn from(times: &'s [Coeff]) -> Self {
        Self { times, told: times }
    }
}

impl Deref for Times<'_> {
    type Target = [Coeff];

    fn deref(&self) -> &[Coeff] {
        self.times
    }
}

/// What a run remembers between two steps.
#[derive(Clone, Default)]
pub struct Carried {
    /// Batches.
    pub samples: Vec<Var>,
    /// Numbers that belong to them.
    pub coeffs: Vec<Coeff>,
}

impl Carried {
    /// The same as constants: no derivative passes.
    pub fn detached(&self) -> Self {
        let samples = self.samples.iter().map(Var::detached).collect();
        Self { samples, coeffs: self.coeffs.iter().map(Coeff::detached).collect() }
    }
}

/// One run of a solver: its memory.
pub trait Run {
    /// Carries `x` over interval `i`, from `times[i]` to `times[i + 1]`.
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var>;

    /// What it remembers; nothing, unless the method can be resumed.
    fn carried(&self) -> Carried {
        Carried::default()
    }
}

/// Checks an order against the ones a method has.
pub fn check_order(solver: &str, order: usize, highest: usize) -> Result<usize> {
    if (1..=highest).contains(&order) {
        return Ok(order);
    }
    Err(Error::bad_value("order", order, format!("{solver} has orders 1 to {highest}")))
}
