//! Resampling that goes with a layer: none, halving or doubling.

use super::blueprint::Direction;
use super::config::NetConfig;
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Fir};
use std::borrow::Cow;

/// A resampling.
pub(super) enum Resample {
    /// Sizes stay.
    Same,
    /// Halves.
    Down(Fir),
    /// Doubles.
    Up(Fir),
}

impl Resample {
    /// The resampling at both ends of a block: of its first convolution, and of what passes by.
    pub(super) fn new(direction: Direction, net: &NetConfig, scope: &Scope<'_>) -> Result<Self> {
        let fir = || filter(net, &scope.at("conv0")).and_then(|_| filter(net, &scope.at("skip")));
        Ok(match direction {
            Direction::Same => Resample::Same,
            Direction::Down => Resample::Down(fir()?),
            Direction::Up => Resample::Up(fir()?),
        })
    }

    pub(super) fn forward<'x>(&self, x: &'x Act) -> Cow<'x, Act> {
        match self {
            Resample::Same => Cow::Borrowed(x),
            Resample::Down(filter) => Cow::Owned(filter.down(x)),
            Resample::Up(filter) => Cow::Owned(filter.up(x)),
        }
    }

    pub(super) fn backward(&self, gy: Act) -> Act {
        match self {
            Resample::Same => gy,
            Resample::Down(filter) => filter.down_backward(&gy),
            Resample::Up(filter) => filter.up_backward(&gy),
        }
    }
}

/// The resampling filter of a layer. Its taps are the configuration's; what a file says of them is checked for size.
pub(super) fn filter(net: &NetConfig, scope: &Scope<'_>) -> Result<Fir> {
    let taps: Vec<f32> = net.filter.iter().map(|tap| *tap as f32).collect();
    scope.optional("resample_filter", &[1, 1, taps.len(), taps.len()])?;
    Fir::new(&taps).map_err(|e| scope.refused("resample_filter", e))
}
