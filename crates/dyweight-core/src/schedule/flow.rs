//! Flow-matching times with a shift (Esser et al. 2024).
//!
//! ```text
//! σ(u) = s·u/(1 + (s−1)u),  s = e^μ,  μ = 0.5 + 0.65·(L−256)/3840 for L image tokens of 16×16 pixels
//! ```

/// The shift s of a flow schedule: more of the grid at high noise for larger images.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Shift(f64);

impl Shift {
    /// A fixed shift; 1 leaves the grid uniform.
    pub fn fixed(shift: f64) -> crate::error::Result<Self> {
        if shift.is_finite() && shift > 0.0 {
            return Ok(Self(shift));
        }
        let expected = "must be a finite number above 0";
        Err(crate::error::Error::bad_value("shift", crate::error::number(shift), expected))
    }

    /// The resolution-dependent shift for a number of image tokens.
    pub fn for_tokens(tokens: usize) -> Self {
        Self((0.5 + 0.65 * (tokens as f64 - 256.0) / 3840.0).exp())
    }

    /// The resolution-dependent shift for an image in pixels.
    pub fn for_image(height: usize, width: usize) -> Self {
        Self::for_tokens((height / 16) * (width / 16))
    }

    /// s.
    pub fn value(self) -> f64 {
        self.0
    }

    /// σ(u).
    pub fn sigma(self, u: f64) -> f64 {
        // s·u/(1 + (s−1)u), written so that both ends are exact.
        u / (u + (1.0 - u) / self.0)
    }
}

impl TryFrom<f64> for Shift {
    type Error = crate::error::Error;
    fn try_from(shift: f64) -> crate::error::Result<Self> {
        Self::fixed(shift)
    }
}

impl From<Shift> for f64 {
    fn from(shift: Shift) -> f64 {
        shift.0
    }
}
