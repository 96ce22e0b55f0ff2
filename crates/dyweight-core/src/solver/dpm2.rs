//! DPM-Solver-2 (Lu et al. 2022) in slope form.
//!
//! ```text
//! m = b^r·a^{1−r} (a fraction r of the step in ln σ);  d = slope(x, a);  d_m = slope(x + (m−a)d, m)
//! x ← x + (b−a)·[d_m/(2r) + (1 − 1/(2r))·d]
//! ```
//!
//! For a flow, where ln σ has no meaning at the ends, m = a + r(b−a). An interval that ends at σ = 0 has no middle in
//! ln σ and is an Euler step.

use super::{Run, Solver, Times};
use crate::denoiser::Prediction;
use crate::error::{Error, Result, number};
use crate::tape::{Query, Tape, Var};

/// DPM-Solver-2 with its intermediate point at fraction r.
pub struct Dpm2 {
    r: f64,
}

impl Dpm2 {
    /// The midpoint rule is r = ½.
    pub fn new(r: f64) -> Result<Self> {
        if r > 0.0 && r < 1.0 {
            return Ok(Self { r });
        }
        Err(Error::bad_value("r", number(r), "must lie strictly between 0 and 1"))
    }
}

struct Dpm2Run<'s> {
    times: Times<'s>,
    r: f64,
}

impl Solver for Dpm2 {
    fn label(&self) -> String {
        if self.r == 0.5 { "dpm2".into() } else { format!("dpm2(r={})", crate::error::number(self.r)) }
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(Dpm2Run { times, r: self.r }))
    }
}

impl Run for Dpm2Run<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (a, b, r) = (&self.times[i], &self.times[i + 1], self.r);
        let middle = match tape.prediction() {
            Prediction::Denoised => (a.ln() * (1.0 - r) + b.ln() * r).exp(),
            Prediction::Velocity => a + (b - a) * r,
        };
        let slope = tape.slope(&x, &self.times.query(i))?;
        if middle.value() == 0.0 {
            return tape.combine(&[(1.0.into(), &x), (b - a, &slope)]);
        }
        let inner = tape.combine(&[(1.0.into(), &x), (&middle - a, &slope)])?;
        let inner_slope = tape.slope(&inner, &Query::at(&middle))?;
        let length = b - a;
        let weight = 1.0 / (2.0 * r);
        tape.combine(&[(1.0.into(), &x), (&length * weight, &inner_slope), (&length * (1.0 - weight), &slope)])
    }
}
