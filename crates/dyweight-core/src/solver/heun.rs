//! Heun's second-order method (EDM, Karras et al. 2022, Algorithm 1 without churn).
//!
//! ```text
//! d = slope(x, a);  x̂ = x + (b−a)d;  d' = slope(x̂, b);  x ← x + (b−a)(d + d')/2
//! ```
//!
//! The corrector is applied on every interval that does not end at σ = 0; there the slope of a denoised prediction is
//! not defined, and the interval is an Euler step.

use super::{Run, Solver, Times};
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::tape::{Tape, Var};

/// Heun's method.
pub struct Heun;

struct HeunRun<'s> {
    times: Times<'s>,
}

impl Solver for Heun {
    fn label(&self) -> String {
        "heun".into()
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(HeunRun { times }))
    }
}

impl Run for HeunRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        let length = b - a;
        let slope = tape.slope(&x, &self.times.query(i))?;
        let predicted = tape.combine(&[(1.0.into(), &x), (length.clone(), &slope)])?;
        if b.value() == 0.0 && tape.prediction() == Prediction::Denoised {
            return Ok(predicted);
        }
        let corrected = tape.slope(&predicted, &self.times.query(i + 1))?;
        let half = length / 2.0;
        tape.combine(&[(1.0.into(), &x), (half.clone(), &slope), (half, &corrected)])
    }
}
