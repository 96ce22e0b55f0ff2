//! A shift of the network's embedding of the noise level, a vector for every call: the idea of MTEO.
//!
//! ```text
//! dᵢ = (x − D(x, |sᵢT|; eᵢ))/T        eᵢ is added to the vector in which all blocks of the network read the noise
//!     level
//! ```
//!
//! Time scales move the level along its line; this leaves the line. An analytical first step asks no network and has
//! none. Where the vector stands in a network is its own affair (`dyweight-models/src/edm/embedding.rs`); a network
//! that does not offer it refuses.

use super::fitted;
use crate::learned::{Block, require_len};
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// No embedding has more parameters.
const MOST_NUMBERS: usize = 1 << 16;

/// Shifts of the last calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingShift<T = f64> {
    /// `[call][number]`: of as many steps, the last ones, as there are lists.
    pub shifts: Vec<Vec<T>>,
}

impl EmbeddingShift {
    /// Shifts that do nothing, of so many calls of a network whose embedding has so many parameters.
    pub fn zero(calls: usize, params: usize) -> Self {
        Self { shifts: vec![vec![0.0; params]; calls] }
    }

    /// The same for another number of calls: what is missing or too many is so at the front.
    pub fn fitted(&self, calls: usize) -> Self {
        Self { shifts: fitted(&self.shifts, calls, &vec![0.0; self.params()]) }
    }
}

impl<T> EmbeddingShift<T> {
    /// Numbers of the embedding.
    pub fn params(&self) -> usize {
        self.shifts.first().map_or(0, Vec::len)
    }

    pub(super) fn block(&self) -> Block {
        Block::new("embedding", &[self.shifts.len(), self.params()])
    }

    /// The shift of a step out of so many.
    pub(super) fn of(&self, step: usize, steps: usize) -> &[T] {
        let call = (step + self.shifts.len()).checked_sub(steps);
        call.and_then(|call| self.shifts.get(call)).map_or(&[], |shift| shift)
    }

    /// An error unless there is a shift for each of `steps`, or for all but the first, all of one length.
    pub fn check(&self, steps: usize) -> Result<()> {
        let calls = self.shifts.len();
        if calls == 0 || (calls != steps && calls + 1 != steps) {
            let what =
                "span: shifts of the embedding, one per step, or one fewer with the analytical first step".into();
            return Err(Error::Shape { what, expected: vec![steps], found: vec![calls] });
        }
        if !(1..=MOST_NUMBERS).contains(&self.params()) {
            let (value, expected) =
                (self.params().to_string(), format!("an embedding has 1 to {MOST_NUMBERS} numbers"));
            return Err(Error::bad_value("span", format!("shifts of {value}"), expected));
        }
        for (call, shift) in self.shifts.iter().enumerate() {
            require_len(&format!("span: numbers of shift {call} of the embedding"), self.params(), shift.len())?;
        }
        Ok(())
    }
}
