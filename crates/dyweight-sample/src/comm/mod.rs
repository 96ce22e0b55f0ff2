//! Several processes that work on one job.
//!
//! ```text
//! rank 0            reads, writes, prints; takes part in the work
//! rank 1 … R−1      compute their share and hand it over
//! ```
//!
//! Work is a list of samples, and samples are independent: each process takes a contiguous share, and what comes back
//! is put together in the order of the samples. Sums are made afterwards, by everyone, in that order, so results are
//! the same bits for any number of processes.
//!
//! Every process makes the same calls in the same order. What only one can know (is there a file? did someone ask to
//! stop?) is therefore agreed on first: see `broadcast` and `any`. A failure that
//! belongs to the work travels to all (`scatter_gather`); after any other the process that has it ends the job.

mod failure;
mod wire;

pub use wire::{Reader, Wire};

use dyweight_core::error::{Error, Result};
use failure::Failure;
use std::ops::Range;

/// The processes of a job. Every process makes the same calls; what a lost process makes of them is an error, or the
/// end of the job.
pub trait Comm: Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// Every process's bytes, in the order of ranks, at rank 0; nothing elsewhere.
    fn gather_bytes(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;
    /// Every process's bytes, in the order of ranks.
    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// The bytes of rank 0; what others give is ignored.
    fn broadcast_bytes(&self, mine: &[u8]) -> Result<Vec<u8>>;
    /// Waits for all.
    fn barrier(&self) -> Result<()>;
    /// Ends all processes at once.
    fn abort(&self, code: i32) -> !;
}

/// One process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Comm for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather_bytes(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(Some(vec![mine.to_vec()]))
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }

    fn broadcast_bytes(&self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(mine.to_vec())
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}

impl dyn Comm + '_ {
    /// True for the process that reads, writes and prints.
    pub fn is_root(&self) -> bool {
        self.rank() == 0
    }

    /// This process's part of a range: contiguous, in the order of ranks, of sizes that differ by at most `unit`.
    pub fn share(&self, range: &Range<usize>, unit: usize) -> Range<usize> {
        let units = range.len().div_ceil(unit.max(1));
        let border = |rank: usize| (range.start + units * rank / self.size() * unit.max(1)).min(range.end);
        border(self.rank())..border(self.rank() + 1)
    }

    /// True everywhere if it is true anywhere.
    pub fn any(&self, here: bool) -> Result<bool> {
        if self.size() == 1 {
            return Ok(here);
        }
        Ok(self.all_gather_bytes(&[u8::from(here)])?.iter().any(|there| there == &[1]))
    }

    /// What rank 0 finds. A failure that follows from the samples, or a request to stop, is the result of all; another
    /// error it alone has, and it must end the job.
    pub fn broadcast<T: Wire>(&self, find: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.size() == 1 {
            return find();
        }
        let found = if self.is_root() { Some(Failure::sort(find())?) } else { None };
        let bytes = self.broadcast_bytes(&found.as_ref().map_or(Vec::new(), |(found, _)| wire::wrap(found)))?;
        let found = match found {
            Some((_, Some(own))) => return Err(own),
            Some((found, None)) => found,
            None => wire::unwrap(&bytes).ok_or_else(disagreement)?,
        };
        found.map_err(Failure::error)
    }

    /// Everyone's result of `work`, in the order of ranks, for everyone. A failure that follows from the samples, or a
    /// request to stop, is the result of all processes.
    pub fn all_gather<T: Wire>(&self, work: impl FnOnce() -> Result<T>) -> Result<Vec<T>> {
        if self.size() == 1 {
            return Ok(vec![work()?]);
        }
        let (mine, own) = Failure::sort(work())?;
        let everyone = self.all_gather_bytes(&wire::wrap(&mine))?;
        if let Some(own) = own {
            return Err(own);
        }
        let unwrapped = |bytes: &Vec<u8>| wire::unwrap::<Result<T, Failure>>(bytes).ok_or_else(disagreement);
        let results = everyone.iter().map(unwrapped).collect::<Result<Vec<_>>>()?;
        results.into_iter().map(|result| result.map_err(Failure::error)).collect()
    }

    /// Everyone's result of its own share of a range, in units of `unit`, in the order of samples, for everyone; a
    /// share without samples has the default.
    pub fn scatter_gather<T: Wire + Default>(
        &self,
        range: Range<usize>,
        unit: usize,
        work: impl FnOnce(Range<usize>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mine = self.share(&range, unit);
        self.all_gather(|| if mine.is_empty() { Ok(T::default()) } else { work(mine) })
    }

    /// Everyone's result, in the order of ranks, at rank 0; nothing elsewhere. Failures are everyone's.
    pub fn gather<T: Wire>(&self, work: impl FnOnce() -> Result<T>) -> Result<Vec<T>> {
        if self.size() == 1 {
            return Ok(vec![work()?]);
        }
        let (mine, failure) = match work() {
            Ok(mine) => (wire::wrap(&mine), Ok(true)),
            Err(failure) => (Vec::new(), Err(failure)),
        };
        // Failures first, and to all; then what may be large, and to one.
        self.all_gather(|| failure)?;
        let everyone = self.gather_bytes(&mine)?.unwrap_or_default();
        everyone.iter().map(|bytes| wire::unwrap(bytes).ok_or_else(disagreement)).collect()
    }
}

fn disagreement() -> Error {
    Error::conflict(
        "the processes of this job do not understand each other",
        "start the same program with the same options in every process",
    )
}
