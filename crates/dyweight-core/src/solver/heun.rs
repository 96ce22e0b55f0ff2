//! Heun's second-order method (EDM, Karras et al. 2022, Algorithm 1 without churn).
//!
//! ```text
//! d = slope(x, a);  x̂ = x + (b−a)d;  d' = slope(x̂, b);  x ← x + (b−a)(d + d')/2
//! ```
//!
//! The corrector is applied on every interval that does not end at σ = 0; there the slope of a denoised prediction is not
//! defined, and the interval is an Euler step.

use super::{Run, Solver};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::trail::{Query, Sample, Trail};

/// Heun's method.
pub struct Heun;

struct HeunRun<'s> {
    times: &'s [Coeff],
}

impl Solver for Heun {
    fn label(&self) -> String {
        "heun".into()
    }

    fn begin<'s>(&'s self, times: &'s [Coeff], _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(HeunRun { times }))
    }
}

impl Run for HeunRun<'_> {
    fn step(&mut self, trail: &mut Trail<'_>, i: usize, x: Sample) -> Result<Sample> {
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        let length = b - a;
        let slope = trail.slope(&x, &Query::at(a))?;
        let predicted = trail.combine(&[(1.0.into(), &x), (length.clone(), &slope)])?;
        if b.value() == 0.0 && trail.prediction() == Prediction::Denoised {
            return Ok(predicted);
        }
        let corrected = trail.slope(&predicted, &Query::at(b))?;
        let half = length / 2.0;
        trail.combine(&[(1.0.into(), &x), (half.clone(), &slope), (half, &corrected)])
    }
}
