//! Statistics of features by name or file.

use crate::error::{Error, Result};
use crate::metrics::frechet::{Statistics, fashion};
use std::path::Path;

/// The reference built in under a name, or those of an `.npz` file.
pub fn statistics(name: &str) -> Result<Statistics> {
    match name {
        "fashion" => fashion(),
        file if Path::new(file).exists() => Statistics::read(Path::new(file)),
        other => {
            let known = ["fashion", "an .npz file"].map(String::from).to_vec();
            Err(Error::UnknownName { kind: "reference", name: other.into(), known })
        }
    }
}
