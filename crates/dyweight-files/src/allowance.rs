//! What a reader may still spend.
//!
//! A few bytes of a file can stand for much: values that refer to each other many times, views that repeat one
//! number, names made of long paths. Each reader therefore pays from a budget that is set by the file's size.

use crate::Malformed;

/// An amount that only decreases.
#[derive(Debug)]
pub(crate) struct Allowance {
    what: &'static str,
    limit: u64,
    spent: u64,
}

impl Allowance {
    /// For bytes handed out: tied weights may appear several times, so more than the file has, but not much more.
    pub(crate) fn bytes(what: &'static str, file: usize) -> Self {
        Self { what, limit: (file as u64).saturating_mul(4) + (1 << 20), spent: 0 }
    }

    /// For values looked at.
    pub(crate) fn visits() -> Self {
        Self { what: "values referred to in the pickle", limit: 1 << 20, spent: 0 }
    }

    /// Pays, or says that it cannot.
    pub(crate) fn spend(&mut self, amount: usize) -> Result<(), Malformed> {
        self.spent = self.spent.saturating_add(amount as u64);
        if self.spent > self.limit {
            return Err(Malformed::TooLarge { what: self.what, size: self.spent, limit: self.limit });
        }
        Ok(())
    }
}
