//! Resampling that goes with a layer: none, halving or doubling.

use super::blueprint::Direction;
use super::weights::LayerWeights;
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
    pub(super) fn new(direction: Direction, weights: &LayerWeights<'_>) -> Result<Self> {
        Ok(match direction {
            Direction::Same => Resample::Same,
            Direction::Down => Resample::Down(weights.filter()?),
            Direction::Up => Resample::Up(weights.filter()?),
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
