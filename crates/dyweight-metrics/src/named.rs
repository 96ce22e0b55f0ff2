//! Statistics of features by name or file.

use crate::frechet::{Statistics, fashion, fashion_by_judge, fashion_by_pixels};
use dyweight_core::error::{Error, Result};
use std::path::Path;

/// The reference that is built in. As a folder it would be `./fashion`.
pub const BUILT_IN_REFERENCE: &str = "fashion";

/// The reference built in under a name, as a feature network sees its images, or those of an `.npz` file.
pub fn statistics(name: &str, features: &str) -> Result<Statistics> {
    require_known(name)?;
    match name {
        BUILT_IN_REFERENCE if features == "fashion-judge" => fashion_by_judge(),
        BUILT_IN_REFERENCE if features == "pixels" => fashion_by_pixels(),
        BUILT_IN_REFERENCE => fashion(),
        file => Statistics::read(Path::new(file)),
    }
}

/// An error unless there is such a reference.
pub(crate) fn require_known(name: &str) -> Result<()> {
    if name == BUILT_IN_REFERENCE || Path::new(name).exists() {
        return Ok(());
    }
    Err(Error::unknown_name("reference", name, [BUILT_IN_REFERENCE, "an .npz file"]))
}
