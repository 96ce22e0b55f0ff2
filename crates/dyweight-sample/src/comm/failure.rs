//! Failures that belong to the work and have to be the same in every process: training turns back, an entry is recorded
//! as lost, a run is stopped.

use super::wire::{Reader, Wire};
use dyweight_core::error::{Error, Result};

/// A failure on its way to the other processes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failure {
    Diverged {
        solver: String,
        tensor: String,
        at: [f64; 4],
    },
    BadValue {
        name: String,
        value: String,
        expected: String,
    },
    Cancelled,
    /// Something given from outside failed: the process it happened in has the failure itself, the others its words.
    Foreign(String),
}

impl Failure {
    /// Tells failures all must learn of, inside, from those that end the job; with the failure itself where words are
    /// less than it is.
    pub fn sort<T>(result: Result<T>) -> Result<(Result<T, Failure>, Option<Error>)> {
        let mut own = None;
        let failure = match result {
            Ok(value) => return Ok((Ok(value), None)),
            Err(Error::Diverged { solver, step, sigma, tensor, sample, value }) => {
                // Counts stay far below 2⁵³, so f64 holds them exactly.
                Failure::Diverged { solver, tensor: tensor.into(), at: [step as f64, sigma, sample as f64, value] }
            }
            Err(Error::BadValue { name, value, expected }) => Failure::BadValue { name: name.into(), value, expected },
            Err(Error::Cancelled) => Failure::Cancelled,
            Err(error @ Error::Foreign { .. }) => {
                let words = error.to_string();
                own = Some(error);
                Failure::Foreign(words)
            }
            Err(other) => return Err(other),
        };
        Ok((Err(failure), own))
    }

    /// The failure as it was.
    pub fn error(self) -> Error {
        match self {
            Failure::Diverged { solver, tensor, at: [step, sigma, sample, value] } => {
                let (step, sample) = (step as usize, sample as usize);
                Error::Diverged { solver, step, sigma, tensor: lasting(tensor), sample, value }
            }
            Failure::BadValue { name, value, expected } => Error::bad_value(lasting(name), value, expected),
            Failure::Cancelled => Error::Cancelled,
            Failure::Foreign(words) => Error::foreign(format!("in another process: {words}")),
        }
    }
}

/// Names of things in errors live as long as the program: a failure that came from elsewhere costs the few bytes of its
/// name.
fn lasting(name: String) -> &'static str {
    name.leak()
}

impl<T: Wire> Wire for Result<T, Failure> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                0u64.put(out);
                value.put(out);
            }
            Err(Failure::Diverged { solver, tensor, at }) => {
                1u64.put(out);
                (solver.clone(), (tensor.clone(), at.to_vec())).put(out);
            }
            Err(Failure::BadValue { name, value, expected }) => {
                2u64.put(out);
                (name.clone(), (value.clone(), expected.clone())).put(out);
            }
            Err(Failure::Cancelled) => 3u64.put(out),
            Err(Failure::Foreign(words)) => {
                4u64.put(out);
                words.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(match u64::take(from)? {
            0 => Ok(T::take(from)?),
            1 => {
                let (solver, (tensor, at)) = <(String, (String, Vec<f64>))>::take(from)?;
                Err(Failure::Diverged { solver, tensor, at: at.try_into().ok()? })
            }
            2 => {
                let (name, (value, expected)) = <(String, (String, String))>::take(from)?;
                Err(Failure::BadValue { name, value, expected })
            }
            3 => Err(Failure::Cancelled),
            4 => Err(Failure::Foreign(String::take(from)?)),
            _ => return None,
        })
    }
}
