//! A checked time grid.

use crate::coeff::Coeff;
use crate::error::{Error, Result, number};

/// Strictly decreasing noise levels, at least two, the last one not negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid(Vec<f64>);

impl Grid {
    /// Checks a list.
    pub fn new(sigmas: Vec<f64>) -> Result<Self> {
        if sigmas.len() < 2 {
            return Err(Error::bad_value("sigmas", format!("{sigmas:?}"), "a grid needs at least two sigmas"));
        }
        if let Some(index) = sigmas.iter().position(|s| !s.is_finite()) {
            return Err(Error::NotFinite { what: "sigmas".into(), index, value: sigmas[index] });
        }
        if let Some(index) = (0..sigmas.len() - 1).find(|i| sigmas[*i] <= sigmas[i + 1]) {
            return Err(Error::GridNotDecreasing { index, left: sigmas[index], right: sigmas[index + 1] });
        }
        let last = sigmas[sigmas.len() - 1];
        if last < 0.0 {
            return Err(Error::bad_value("sigmas", number(last), "the last sigma must not be negative"));
        }
        Ok(Self(sigmas))
    }

    /// The noise levels.
    pub fn sigmas(&self) -> &[f64] {
        &self.0
    }

    /// The levels as constants.
    pub fn coeffs(&self) -> Vec<Coeff> {
        self.0.iter().map(|s| Coeff::from(*s)).collect()
    }

    /// Number of intervals.
    pub fn steps(&self) -> usize {
        self.0.len() - 1
    }

    /// Where sampling starts.
    pub fn first(&self) -> f64 {
        self.0[0]
    }

    /// Where sampling ends.
    pub fn last(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strictly_decreasing_lists_are_grids() {
        assert!(Grid::new(vec![1.0, 0.5, 0.0]).is_ok());
        for bad in [vec![1.0], vec![1.0, 1.0], vec![1.0, f64::NAN], vec![0.5, 1.0], vec![1.0, -0.1], vec![]] {
            assert!(Grid::new(bad).is_err());
        }
    }
}
