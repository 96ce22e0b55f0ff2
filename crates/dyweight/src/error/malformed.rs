//! Each way in which a file can be wrong has a name.

/// What is wrong with the bytes of a file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The file ends too early.
    #[error("truncated: {needed} more bytes needed at offset {offset}")]
    Truncated {
        /// Where the missing bytes should start.
        offset: usize,
        /// How many are missing, at least.
        needed: usize,
    },
}

impl Malformed {
    /// What to try, where there is something to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Malformed::Truncated { .. } => Some("the download or copy may be incomplete".into()),
        }
    }
}
