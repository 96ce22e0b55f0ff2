//! Failures that belong to the work and have to be the same in every process: training turns back, an entry is recorded as lost, a
//! run is stopped.

use super::parcel::{Parcel, Reader};
use dyweight_core::error::{Error, Result};

/// A failure on its way to the other processes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failure {
    Diverged { solver: String, tensor: String, at: [f64; 4] },
    BadValue { name: String, value: String, expected: String },
    Cancelled,
}

impl Failure {
    /// Tells failures all must learn of, inside, from those that end the job.
    pub fn sort<T>(result: Result<T>) -> Result<Result<T, Failure>> {
        Ok(Err(match result {
            Ok(value) => return Ok(Ok(value)),
            Err(Error::Diverged { solver, step, sigma, tensor, sample, value }) => {
                // Counts stay far below 2⁵³, so f64 holds them exactly.
                Failure::Diverged { solver, tensor: tensor.into(), at: [step as f64, sigma, sample as f64, value] }
            }
            Err(Error::BadValue { name, value, expected }) => Failure::BadValue { name: name.into(), value, expected },
            Err(Error::Cancelled) => Failure::Cancelled,
            Err(other) => return Err(other),
        }))
    }

    /// The failure as it was.
    pub fn error(self) -> Error {
        match self {
            Failure::Diverged { solver, tensor, at: [step, sigma, sample, value] } => {
                let (step, sample) = (step as usize, sample as usize);
                Error::Diverged { solver, step, sigma, tensor: lasting(tensor), sample, value }
            }
            Failure::BadValue { name, value, expected } => Error::BadValue { name: lasting(name), value, expected },
            Failure::Cancelled => Error::Cancelled,
        }
    }
}

/// Names of things in errors live as long as the program: a failure that came from elsewhere costs the few bytes of its name.
fn lasting(name: String) -> &'static str {
    name.leak()
}

impl<T: Parcel> Parcel for Result<T, Failure> {
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
            _ => return None,
        })
    }
}
