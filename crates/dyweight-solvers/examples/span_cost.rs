//! What a wider span costs in every step of a sample of three sizes, beside a network that costs nothing: the least of
//! many times, in turns.
//!
//! `cargo run -p dyweight-solvers --example span_cost` (the development profile is optimised)

use dyweight_core::denoiser::{Denoiser, Info, Levels, Prediction};
use dyweight_core::noise::Rng;
use dyweight_core::sample::{Plan, sample};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::{DyWeight, Initial};
use dyweight_core::{Result, Tensor};
use dyweight_solvers::Weights;
use dyweight_solvers::span::{Bands, Operator, Span, StateWeights};
use std::time::Instant;

/// Those of `fashion`, EDM's CIFAR-10 and EDM's FFHQ.
const SHAPES: [[usize; 3]; 3] = [[1, 28, 28], [3, 32, 32], [3, 64, 64]];
const STEPS: usize = 6;
const TIMES: usize = 60;

/// A model that costs next to nothing.
struct Free;

impl Denoiser for Free {
    fn predict(&self, x: &Tensor, _: &Levels) -> Result<Tensor> {
        Ok(x.map(|v| 0.5 * v))
    }

    fn info(&self) -> Info {
        Prediction::Denoised.into()
    }
}

/// A solver of that span, with parameters that are not 0.
fn solver(span: &Span) -> Result<DyWeight> {
    let params: Vec<f64> = (0..span.params().len()).map(|i| 1e-3 * (i as f64).sin()).collect();
    let weights = Weights::new(Initial::Ab.rows(STEPS, 3), vec![1.0; STEPS - 1]);
    Weights { span: span.with(&params), ..weights }.solver()
}

fn main() -> Result<()> {
    SHAPES.iter().try_for_each(|shape| measure(*shape))
}

fn measure(shape: [usize; 3]) -> Result<()> {
    let widths: Vec<usize> = Initial::Ab.rows(STEPS, 3).iter().map(Vec::len).collect();
    let state = || Some(StateWeights::zero(STEPS));
    let bands = || Some(Bands::zero(&Bands::EDGES, &widths));
    let operator = |size, mixed| Some(Operator::zero(size, shape[0], mixed, &widths));
    let spans = [
        Span::default(),
        Span { state: state(), ..Span::default() },
        Span { bands: bands(), ..Span::default() },
        Span { operator: operator(3, false), ..Span::default() },
        Span { operator: operator(5, false), ..Span::default() },
        Span { operator: operator(3, true), ..Span::default() },
        Span { operator: operator(5, true), ..Span::default() },
        Span { bands: bands(), operator: operator(3, false), ..Span::default() },
        Span { state: state(), bands: bands(), operator: operator(5, true), ..Span::default() },
    ];
    let solvers = spans.iter().map(solver).collect::<Result<Vec<_>>>()?;
    let grid = Schedule::Karras { rho: 7.0 }.grid(STEPS, (0.002, 80.0))?;
    let noise = Rng::Native.latents(&[0], shape)?;
    let mut least = vec![f64::INFINITY; spans.len()];
    for _ in 0..TIMES {
        for (solver, least) in solvers.iter().zip(&mut least) {
            let begun = Instant::now();
            sample(&Free, &Plan::new(solver, &grid).afs(true), &noise)?;
            *least = least.min(1e3 * begun.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    println!("samples of {shape:?}; DyWeight itself: {:.3} ms per step and sample", least[0]);
    for (span, time) in spans.iter().zip(&least).skip(1) {
        println!("  {}: {} numbers, {:.3} ms more", span.parts().join(","), span.params().len(), time - least[0]);
    }
    Ok(())
}
