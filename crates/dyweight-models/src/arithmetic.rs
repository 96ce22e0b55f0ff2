//! How networks are computed: what may be chosen between speed and exactness.

use dyweight_core::error::{Error, Result, named};
use dyweight_nn::{ConvAlgo, Precision};

/// How convolutions and linear layers are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// How 3×3 convolutions are.
    pub conv: ConvAlgo,
    /// How exact the products of convolutions, linear layers and attention are.
    pub precision: Precision,
}

impl From<ConvAlgo> for Arithmetic {
    fn from(conv: ConvAlgo) -> Self {
        Self { conv, precision: Precision::default() }
    }
}

/// A precision by name.
pub fn precision(name: &str) -> Result<Precision> {
    named("precision", name, &Precision::NAMES)
}

/// An error unless the instructions in use have the precision: without them it would be slower than f32, and no more
/// exact.
pub(crate) fn require_available(precision: Precision) -> Result<()> {
    if precision.is_available() {
        return Ok(());
    }
    let (name, instructions) = (precision.name(), crate::instruction_set());
    Err(Error::conflict(
        format!(
            "`precision = {name}` needs a processor that multiplies {name} (avx512_bf16 among its flags), and the instructions in \
             use here ({instructions}) do not"
        ),
        "leave `precision` out: f32 runs everywhere, and is more exact",
    ))
}

/// An error if a precision is asked of a model that has no use for it.
pub(crate) fn refuse_unused(precision: Precision, model: &str) -> Result<()> {
    if precision == Precision::default() {
        return Ok(());
    }
    Err(Error::conflict(
        format!("nothing of '{model}' is computed in {}", precision.name()),
        "leave `precision` out; networks take it: FLUX, T5, U-Nets",
    ))
}
