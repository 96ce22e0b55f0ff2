//! `dyweight metric bench`: what the algebra of a Fréchet distance costs.

use crate::ui;
use clap::Args;
use dyweight::comm::Solo;
use dyweight::metrics::frechet::{Reference, Statistics};
use dyweight::metrics::linalg::Moments;
use dyweight::metrics::{Features, Origin};
use dyweight::noise::Stream;
use dyweight::{Error, Result};
use serde_json::json;
use std::time::Instant;

/// Sizes.
#[derive(Args)]
pub struct MetricBenchArgs {
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

/// A covariance of this many features takes 2 GB.
const MOST_DIMS: usize = 1 << 14;
/// As do this many numbers of features.
const MOST_NUMBERS: usize = 1 << 29;

/// Runs the command.
pub fn run(args: &MetricBenchArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    for (name, value, most) in [("dims", args.dims, MOST_DIMS), ("count", args.count, MOST_NUMBERS / args.dims.max(1))]
    {
        if !(2..=most).contains(&value) {
            return Err(Error::bad_value(name, value, format!("from 2 to {most}")));
        }
    }
    let features = made_up(args.dims, args.count, 0)?;
    let (own, covariance) = timed(|| {
        let moments = Moments::of(features.rows(), args.dims);
        Ok(Statistics { mu: moments.mean().to_vec(), sigma: moments.covariance()?, source: Origin::default() })
    })?;
    let other = Statistics::of(&made_up(args.dims, args.count.min(2 * args.dims), 1)?, Origin::default())?;
    let (reference, root) = timed(|| Reference::new(other))?;
    let (_, distance) = timed(|| reference.distance(&own))?;
    let (_, estimate) = timed(|| reference.estimate(&features))?;
    let parts = [("covariance", covariance), ("reference", root), ("distance", distance), ("estimate", estimate)];
    let threads = rayon::current_num_threads();
    if args.json {
        let mut facts = json!({ "count": args.count, "dims": args.dims, "threads": threads });
        parts.iter().for_each(|(name, (seconds, cpu))| facts[name] = json!({ "seconds": seconds, "cpu": cpu }));
        ui::print_json(&facts);
        return Ok(());
    }
    let mut rows = vec![["part", "time", "processor"].map(String::from).to_vec()];
    for (name, (seconds, cpu)) in parts {
        rows.push(vec![name.into(), ui::duration(seconds), cpu.map_or("unknown".into(), ui::duration)]);
    }
    ui::table(&rows);
    ui::say(&format!(
        "{} x {}, {threads} threads; an estimate is covariance, distance and error",
        args.count, args.dims
    ));
    Ok(())
}

/// A result, the seconds it took, and those of the processor, which a busy machine does not stretch as much.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, (f64, Option<f64>))> {
    let (started, before) = (Instant::now(), processor_seconds());
    let result = work()?;
    let processor = before.zip(processor_seconds()).map(|(b, a)| a - b);
    Ok((result, (started.elapsed().as_secs_f64(), processor)))
}

/// Processor time of all threads, where the system says (Linux).
fn processor_seconds() -> Option<f64> {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may hold anything and ends with a bracket, fields 12 and 13 are user and system time.
    let mut fields = stat.rsplit(") ").next()?.split(' ').skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / TICKS)
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
