//! What a wider span costs in every step, beside a network call of the EDM CIFAR-10 network (random weights) on the same samples.
//!
//! `cargo run --release -p dyweight --example span_cost`

use dyweight::denoiser::{Condition, Denoiser, Levels, Prediction};
use dyweight::models::ModelSpec;
use dyweight::noise::Rng;
use dyweight::sample::{Plan, sample};
use dyweight::schedule::{Grid, Schedule};
use dyweight::solver::span::Span;
use dyweight::solver::{Initial, Weights};
use dyweight::train::SpanSpec;
use dyweight::{Result, Tensor};
use std::ops::ControlFlow;
use std::time::Instant;

const SHAPE: [usize; 3] = [3, 32, 32];
const SAMPLES: usize = 8;
const STEPS: usize = 6;
const SPANS: [&str; 8] = [
    "state",
    "bands",
    "operator:3",
    "operator:5",
    "operator:3:mixed",
    "operator:5:mixed",
    "bands,operator:3",
    "state,bands,operator:5:mixed",
];

/// A model that costs next to nothing.
struct Free;

impl Denoiser for Free {
    fn predict(&self, x: &Tensor, _: &Levels) -> Result<Tensor> {
        Ok(x.map(|v| 0.5 * v))
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }

    fn sigma_range(&self) -> (f64, f64) {
        (0.002, 80.0)
    }
}

/// The least of several times, in milliseconds.
fn best(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..times {
        let begun = Instant::now();
        work()?;
        least = least.min(1e3 * begun.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn solver_time(span: Span, grid: &Grid, noise: &Tensor) -> Result<f64> {
    let weights = Weights { span, ..Weights::new(Initial::Ab.rows(STEPS, 3), vec![1.0; STEPS - 1]) };
    let solver = weights.solver()?;
    let plan = Plan::new(&solver, grid).afs(true);
    let run = || sample(&Free, &plan, noise, &mut |_| ControlFlow::Continue(())).map(drop);
    Ok(best(30, run)? / (STEPS * SAMPLES) as f64)
}

fn main() -> Result<()> {
    let grid = Schedule::Karras { rho: 7.0 }.grid(STEPS, (0.002, 80.0))?;
    let noise = Rng::Native.latents(&(0..SAMPLES as u64).collect::<Vec<_>>(), SHAPE)?;
    let network = ModelSpec::named("random:edm-cifar10").build()?;
    let bound = network.model.denoiser(&Condition::classes(None))?;
    let call = best(3, || bound.predict(&noise, &Levels::One(2.0)).map(drop))? / SAMPLES as f64;
    println!("a network call: {call:.1} ms per sample");
    let plain = solver_time(Span::default(), &grid, &noise)?;
    println!("{:<32} {plain:>8.4} ms per step and sample", "DyWeight itself");
    let widths: Vec<usize> = Initial::Ab.rows(STEPS, 3).iter().map(Vec::len).collect();
    for text in SPANS {
        let span = text.parse::<SpanSpec>()?.start(&Span::default(), &widths, Some(SHAPE))?;
        // Numbers that are not 0, as after training.
        let numbers: Vec<f64> = (0..span.numbers().len()).map(|i| 1e-3 * (i as f64).sin()).collect();
        let more = solver_time(span.with(&numbers), &grid, &noise)? - plain;
        println!("{text:<32} {more:>8.4} ms more, {:.2} % of a call", 100.0 * more / call);
    }
    Ok(())
}
