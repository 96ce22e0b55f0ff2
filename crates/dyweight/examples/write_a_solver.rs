//! A solver of your own: written once, it is counted, samples, and can be differentiated.
//!
//! `cargo run --release --example write_a_solver`
//!
//! ```text
//! the midpoint rule:  m = √(a·b);   x ← x + (b − a)·slope(x + (m − a)·slope(x, a), m)
//! ```

use dyweight::coeff::Coeff;
use dyweight::denoiser::{Model, Prediction};
use dyweight::mixture::Mixture;
use dyweight::noise::Rng;
use dyweight::sample::{Plan, count_calls, integrate, sample};
use dyweight::schedule::Schedule;
use dyweight::solver::{Method, Run, Times};
use dyweight::tape::{Cotangent, Memory, Query, Tape, Var};
use dyweight::{Result, Tensor};

struct Midpoint;

/// What a run remembers between steps: of this method nothing but its grid.
struct MidpointRun<'s> {
    times: Times<'s>,
}

impl Method for Midpoint {
    fn label(&self) -> String {
        "midpoint".into()
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(MidpointRun { times }))
    }
}

impl Run for MidpointRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        let middle = (a * b).sqrt();
        let slope = tape.slope(&x, &self.times.query(i))?;
        let inner = tape.combine(&[(1.0.into(), &x), (&middle - a, &slope)])?;
        let slope = tape.slope(&inner, &Query::at(&middle))?;
        tape.combine(&[(1.0.into(), &x), (b - a, &slope)])
    }
}

/// The program, which `tests/examples.rs` runs too.
pub fn main() -> Result<()> {
    let model = Mixture::spiral();
    let denoiser = model.denoiser(&Default::default())?;
    let grid = Schedule::Karras { rho: 7.0 }.grid(12, model.sigma_range())?;
    let noise = Rng::Native.latents(&[0, 1, 2, 3], model.shape())?;

    let plan = Plan::new(&Midpoint, &grid);
    let samples = sample(&*denoiser, &plan, &noise)?.samples;
    println!("{} calls, sample 0 at {:.3?}", count_calls(&plan, Prediction::Denoised)?, samples.sample(0));

    // How the first entry of the samples moves with each time of the grid: nothing more was written for it.
    let times = grid.sigmas().iter().enumerate().map(|(i, t)| Coeff::parameter(*t, i)).collect();
    let mut tape = Tape::recording(&*denoiser, Memory::Keep);
    let start = tape.start(noise);
    let end = integrate(&mut tape, &Plan { times, ..plan }, &start, &mut |_| Ok(()))?;
    let mut cotangent = Tensor::zeros(samples.shape());
    cotangent.data_mut()[0] = 1.0;
    let found = tape.gradients(vec![Cotangent { sample: end, cotangent }], 13)?;
    let slopes: Vec<f64> = found.parameters.iter().map(|of_samples| of_samples[0]).collect();
    println!("d(entry)/d(time): {slopes:.2?}");
    assert!(slopes.iter().any(|slope| *slope != 0.0));
    Ok(())
}
