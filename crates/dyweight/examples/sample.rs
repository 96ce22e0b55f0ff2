//! Samples of a pretrained model, by a handcrafted solver in nine network calls: the first pictures of an embedded
//! network.
//!
//! `cargo run --release --example sample`

use dyweight::models::ModelSpec;
use dyweight::sample::Show;
use dyweight::{Nfe, Result, SampleOptions, Solver};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The program, which `tests/examples.rs` runs too.
pub fn main() -> Result<()> {
    // A name, or the path of an EDM, Stable Diffusion or FLUX checkpoint.
    let model = ModelSpec::named("fashion").build()?;
    let solver = Solver::named("dpmpp", Nfe(9))?;
    let states = AtomicUsize::new(0);
    let seen = |_: &[usize], state: &dyweight::sample::State<'_>| {
        states.fetch_add(1, Ordering::Relaxed);
        println!("state {} at noise level {:.3}", state.index, state.sigma);
        Ok(())
    };
    // Class 1 of Fashion-MNIST: trousers.
    let options = SampleOptions { show: Show::Class(1), progress: Some(&seen), ..SampleOptions::default() };
    let pictures = solver.sample_with(&model, 0..2, &options)?;
    // The noise itself, and a state after each of nine calls, for every batch.
    assert_eq!(states.into_inner() % 10, 0);
    for row in pictures.sample(0).chunks(28) {
        println!("{}", row.iter().map(|v| if *v > 0.0 { '#' } else { '.' }).collect::<String>());
    }
    Ok(())
}
