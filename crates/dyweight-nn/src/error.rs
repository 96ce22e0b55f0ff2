//! What can be wrong with the numbers an operation is built from.

use std::fmt;

use crate::precision::Precision;

/// The engine's result type.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A weight array has the wrong number of entries.
    Length {
        /// Which array.
        what: &'static str,
        /// How many entries the operation needs.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// Channels cannot be divided into equal groups or heads.
    Groups {
        /// Number of channels.
        channels: usize,
        /// Number of groups or heads.
        groups: usize,
    },
    /// A row of a table that does not exist was asked for.
    Row {
        /// Rows of the table.
        rows: usize,
        /// Which was asked for.
        found: usize,
    },
    /// A size that must not be zero is, or sizes contradict each other.
    Size {
        /// Which size.
        what: &'static str,
        /// Its value.
        found: usize,
    },
    /// A precision was asked for that the instructions in use do not have.
    Instructions {
        /// Which.
        precision: Precision,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { what, expected, found } => write!(f, "{what} has {found} entries, needs {expected}"),
            Self::Groups { channels, groups } => {
                write!(f, "{channels} channels do not divide into {groups} equal groups")
            }
            Self::Row { rows, found } => write!(f, "a table of {rows} rows has no row {found}"),
            Self::Size { what, found } => write!(f, "{what} cannot be {found}"),
            Self::Instructions { precision } => {
                write!(f, "the instructions in use have no products in {}", precision.name())
            }
        }
    }
}

impl std::error::Error for Error {}

/// An error unless `found` entries are the `expected` number.
pub(crate) fn check_len(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

/// An error if a size is zero.
pub(crate) fn check_positive(what: &'static str, found: usize) -> Result<()> {
    if found > 0 { Ok(()) } else { Err(Error::Size { what, found }) }
}

/// An error unless `groups` divides `channels`.
pub(crate) fn check_groups(channels: usize, groups: usize) -> Result<()> {
    let divides = groups > 0 && channels > 0 && channels.is_multiple_of(groups);
    if divides { Ok(()) } else { Err(Error::Groups { channels, groups }) }
}
