//! Memory is counted for the whole process: this test is a program of its own.

use dyweight_core::error::Result;
use dyweight_models::MemoryNeeds;
use dyweight_models::unet::{Unet, UnetConfig};
use dyweight_nn::buffer::{release, usage};
use dyweight_nn::{ConvAlgo, Dtype};

#[test]
fn the_memory_a_call_needs_is_foretold() -> Result<()> {
    let config = UnetConfig {
        widths: vec![64, 128, 128],
        down_attends: vec![true, true, false],
        up_attends: vec![false, true, true],
        heads: vec![4; 3],
        depths: vec![1; 3],
        context: Some(64),
        ..UnetConfig::sd15()
    };
    let size = [48, 48];
    let foretold = MemoryNeeds::new(&config, None, size, 0);
    let unet = Unet::random(&config, (0, Dtype::F32), ConvAlgo::Winograd4)?;
    let measured = |gradient: bool| {
        release();
        unet.measure_once(size, gradient);
        usage().peak as f64
    };
    // What operations need besides is a constant that a network of this size would hide behind.
    let extra = MemoryNeeds::new(&config, None, [0, 0], 0).forward as f64;
    for (what, needed, gradient) in [("forward", foretold.forward, false), ("gradient", foretold.gradient, true)] {
        let (needed, found) = ((needed as f64 - extra) / 1.25, measured(gradient));
        assert!((0.8..1.35).contains(&(needed / found)), "{what}: foretold {needed}, measured {found}");
    }
    Ok(())
}
