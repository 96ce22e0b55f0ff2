//! The numerical study with its default grid:
//! `cargo run --release --example numeric_study -p dyweight-study -- OUTDIR [quick]`.

use dyweight_study::numeric::{NumericOptions, run};
use std::path::PathBuf;

fn main() -> dyweight_core::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let outdir = PathBuf::from(arguments.next().unwrap_or_else(|| "numeric-study".into()));
    let options = if arguments.next().is_some() { NumericOptions::quick() } else { NumericOptions::default() };
    let start = std::time::Instant::now();
    let summary = run(&options, &outdir, &mut |progress| {
        let cell = progress.latest.cell;
        eprintln!("{}/{} K={} S={} order={}", progress.done, progress.total, cell.degree, cell.steps, cell.order);
        Ok(())
    })?;
    eprintln!(
        "{} cells ({} resumed) in {:.1} s",
        summary.records.len(),
        summary.resumed,
        start.elapsed().as_secs_f64()
    );
    for observation in &summary.observations {
        println!("{} {}: {}", observation.claim, observation.verdict(), observation.found);
    }
    Ok(())
}
