//! A learned solver against handcrafted ones: distances to a teacher of many calls, from the same noise.
//!
//! `cargo run --release --example compare`

use dyweight::mixture::Mixture;
use dyweight::train::TrainSpec;
use dyweight::{Nfe, Result, Solver};

/// The program, which `tests/examples.rs` runs too.
pub fn main() -> Result<()> {
    let (model, calls) = (Mixture::spiral(), Nfe(5));
    let options = TrainSpec { iters: Some(150), ..TrainSpec::default() };
    let solvers = [
        dyweight::train(&model, calls, &options)?,
        Solver::named("ipndm", calls)?,
        Solver::named("dpmpp", calls)?,
        Solver::named("euler", calls)?,
    ];
    // Seeds that nothing was learned on: training has noise of its own.
    let found = dyweight::compare(&model, &solvers, &Solver::named("ipndm", Nfe(100))?, 0..512)?;
    print!("{found}");
    let [learned, handcrafted @ ..] = &found.rows[..] else { unreachable!("a row for each solver") };
    assert!(handcrafted.iter().all(|(_, distance)| learned.1.value < distance.value), "{found}");
    Ok(())
}
