//! A solver for a model of your own: learned in three network calls, kept in a file, used.
//!
//! `cargo run --release --example own_model`

use dyweight::denoiser::{ClosureModel, Prediction};
use dyweight::train::TrainSpec;
use dyweight::{Nfe, Result, Solver};

/// The denoiser of data that are −1 or +1: any function of a sample and its noise level would do.
fn denoised(x: &[f64], sigma: f64) -> Vec<f64> {
    x.iter().map(|v| (v / (sigma * sigma)).tanh()).collect()
}

/// The program, which `tests/examples.rs` runs too.
pub fn main() -> Result<()> {
    let model = ClosureModel::of_samples([1, 4, 4], Prediction::Denoised, (0.002, 80.0), denoised)
        // ∂L/∂x from ∂L/∂D: what training differentiates through.
        .with_sample_pullback(|x, sigma, g| {
            let slope = |v: f64| (1.0 - (v / (sigma * sigma)).tanh().powi(2)) / (sigma * sigma);
            x.iter().zip(g).map(|(v, g)| g * slope(*v)).collect()
        });
    let options = TrainSpec { iters: Some(30), batch: Some(16), validation: Some(32), ..TrainSpec::default() };
    let mut best = f64::INFINITY;
    let solver = dyweight::train_observed(&model, Nfe(3), &options, &mut |iteration, _| {
        best = best.min(iteration.loss);
        Ok(())
    })?;
    println!("smallest loss of a batch: {best:.2e}");

    let path = std::env::temp_dir().join("dyweight-own-model.json");
    solver.save(&path)?;
    let samples = Solver::load(&path)?.sample(&model, 0..4)?;
    println!("sample 0: {:.2?}", samples.sample(0));
    assert_eq!(samples, solver.sample(&model, 0..4)?, "a file keeps every bit");
    std::fs::remove_file(&path).map_err(|e| dyweight::Error::io("remove", &path, e))
}
