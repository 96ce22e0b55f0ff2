//! `dyweight metric bench`: what the algebra of a Fréchet distance costs.

use crate::ui;
use clap::Args;
use dyweight::linalg::Moments;
use dyweight::metrics::frechet::{Reference, Statistics};
use dyweight::metrics::{Features, Source};
use dyweight::noise::Stream;
use dyweight::{Error, Result};
use serde_json::json;
use std::time::Instant;

/// Sizes.
#[derive(Args)]
pub struct BenchArgs {
    /// Samples
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Features
    #[arg(long, default_value_t = 2048)]
    dims: usize,
    /// Threads [all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    ui::set_threads(args.threads)?;
    for (name, value) in [("count", args.count), ("dims", args.dims)] {
        if value < 2 {
            return Err(Error::BadValue { name, value: value.to_string(), expected: "at least 2".into() });
        }
    }
    let features = made_up(args.dims, args.count, 0)?;
    let started = Instant::now();
    let moments = Moments::of(features.rows(), args.dims);
    let sigma = moments.covariance()?;
    let covariance = started.elapsed().as_secs_f64();
    let own = Statistics { mu: moments.mean().to_vec(), sigma, source: Source::default() };
    let other = Statistics::of(&made_up(args.dims, args.count.min(2 * args.dims), 1)?, Source::default())?;
    let started = Instant::now();
    let reference = Reference::new(other)?;
    let decomposition = started.elapsed().as_secs_f64();
    let started = Instant::now();
    reference.distance(&own)?;
    let distance = started.elapsed().as_secs_f64();
    let started = Instant::now();
    reference.estimate(&features)?;
    let estimate = started.elapsed().as_secs_f64();
    let threads = rayon::current_num_threads();
    if args.json {
        ui::print_json(&json!({
            "count": args.count, "dims": args.dims, "threads": threads, "covariance_seconds": covariance,
            "reference_seconds": decomposition, "distance_seconds": distance, "estimate_seconds": estimate,
        }));
    } else {
        ui::print(&format!(
            "{} x {}, {threads} threads: covariance {}, root of the reference (once) {}, distance {}; all with error {}",
            args.count,
            args.dims,
            ui::duration(covariance),
            ui::duration(decomposition),
            ui::duration(distance),
            ui::duration(estimate)
        ));
    }
    Ok(())
}

/// Rows with a falling spectrum, as features have.
fn made_up(dims: usize, count: usize, seed: u64) -> Result<Features> {
    let mut stream = Stream::new(seed);
    let scale: Vec<f64> = (0..dims).map(|j| 1.0 / (1.0 + j as f64)).collect();
    let mut row = || -> Vec<f32> {
        let u: Vec<f64> = (0..dims).map(|j| scale[j] * stream.uniform()).collect();
        (0..dims).map(|j| (u[j] + 0.5 * u[(j * 7 + 1) % dims]) as f32).collect()
    };
    Features::from_rows(dims, (0..count).flat_map(|_| row()).collect())
}
