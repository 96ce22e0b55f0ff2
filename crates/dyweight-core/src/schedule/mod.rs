//! Time grids: which noise levels σ₀ > σ₁ > … > σ_S a solver visits.
//!
//! A [`Schedule`] is a rule; [`Schedule::grid`] turns it into a checked [`Grid`] of `steps` intervals.
//!
//! | rule | formula |
//! |---|---|
//! | karras | (σ_max^{1/ρ} + u(σ_min^{1/ρ} − σ_max^{1/ρ}))^ρ (Karras et al. 2022, eq. 5) |
//! | logsnr | ln σ linear |
//! | time-uniform | a power-ρ grid in the time of a variance-preserving process: [`vp`] |
//! | discrete | a power-ρ grid in the training time of a discrete model: [`beta_table`] |
//! | flow | σ = s·u/(1 + (s−1)u), u = 1 … 0: [`flow`] |
//! | explicit | the list itself |
//!
//! with u = i/S.
//!
//! ```
//! use dyweight_core::schedule::Schedule;
//! let grid = Schedule::Karras { rho: 7.0 }.grid(4, (0.002, 80.0))?;
//! assert_eq!(grid.sigmas().len(), 5);
//! assert!((grid.sigmas()[1] - 17.527832).abs() < 1e-6);
//! # Ok::<(), dyweight_core::Error>(())
//! ```

pub mod beta_table;
pub mod flow;
mod grid;
pub mod vp;

pub use beta_table::BetaTable;
pub use flow::Shift;
pub use grid::Grid;

use crate::error::{Error, Result, number};

/// A rule for the grid.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// Polynomial with exponent ρ.
    Karras {
        /// ρ; 7 in the EDM paper.
        rho: f64,
    },
    /// Geometric.
    #[serde(rename = "logsnr")]
    LogSnr,
    /// Polynomial with exponent ρ in variance-preserving time.
    TimeUniform {
        /// ρ; 1 is uniform.
        rho: f64,
    },
    /// Polynomial with exponent ρ in the time index of a discrete model.
    Discrete {
        /// The model's noise table.
        table: BetaTable,
        /// ρ; 1 is uniform.
        rho: f64,
    },
    /// Flow matching: from σ = 1 to 0.
    Flow {
        /// The time shift.
        shift: Shift,
    },
    /// A given list.
    Explicit {
        /// Strictly decreasing.
        sigmas: Vec<f64>,
    },
}

impl Schedule {
    /// The grid of `steps` intervals from `sigma_max` to `sigma_min`, both exactly on the grid.
    pub fn grid(&self, steps: usize, (sigma_min, sigma_max): (f64, f64)) -> Result<Grid> {
        if steps == 0 {
            return Err(bad("steps", steps, "at least one step is needed"));
        }
        if let Schedule::Explicit { sigmas } = self {
            return explicit(sigmas, steps);
        }
        if let Schedule::Flow { shift } = self {
            // The first is 1 whatever the shift; rounding can leave it a little above, where no velocity model goes.
            let later = (1..=steps).map(|i| shift.sigma(1.0 - i as f64 / steps as f64));
            return Grid::new(std::iter::once(1.0).chain(later).collect());
        }
        check_range(sigma_min, sigma_max)?;
        let mut sigmas = match self {
            Schedule::Karras { rho } => power_grid(steps, sigma_max, sigma_min, check_rho(*rho)?),
            Schedule::LogSnr => {
                power_grid(steps, sigma_max.ln(), sigma_min.ln(), 1.0).iter().map(|l| l.exp()).collect()
            }
            Schedule::TimeUniform { rho } => {
                let map = vp::VpTime::fitted(sigma_min, sigma_max);
                if !map.rises() {
                    let expected =
                        format!("too large for the time-uniform rule up to `sigma-max = {}`", number(sigma_max));
                    return Err(bad("sigma-min", number(sigma_min), &expected));
                }
                power_grid(steps, 1.0, vp::EPSILON, check_rho(*rho)?).iter().map(|t| map.sigma(*t)).collect()
            }
            Schedule::Discrete { table, rho } => {
                let (from, to) = (table.time(sigma_max), table.time(sigma_min));
                power_grid(steps, from, to, check_rho(*rho)?).iter().map(|t| table.sigma(*t)).collect::<Vec<_>>()
            }
            Schedule::Flow { .. } | Schedule::Explicit { .. } => unreachable!("returned above"),
        };
        // The ends are what was asked for, not what rounding left of them.
        (sigmas[0], sigmas[steps]) = (sigma_max, sigma_min);
        Grid::new(sigmas)
    }

    /// The names rules go by.
    pub const NAMES: [&'static str; 6] = ["karras", "logsnr", "time-uniform", "discrete", "flow", "explicit"];

    /// The range of levels the rule itself decides, whatever the model's.
    pub fn own_range(&self) -> Option<(f64, f64)> {
        match self {
            Schedule::Discrete { table, .. } => Some(table.range()),
            Schedule::Flow { .. } => Some((0.0, 1.0)),
            Schedule::Explicit { sigmas } => Some((*sigmas.last()?, *sigmas.first()?)),
            _ => None,
        }
    }

    /// The number of steps, where the rule itself decides it.
    pub fn fixed_steps(&self) -> Option<usize> {
        match self {
            Schedule::Explicit { sigmas } => Some(sigmas.len().saturating_sub(1)),
            _ => None,
        }
    }
}

/// (from^{1/ρ} + u·(to^{1/ρ} − from^{1/ρ}))^ρ for u = 0 … 1.
fn power_grid(steps: usize, from: f64, to: f64, rho: f64) -> Vec<f64> {
    let root = |v: f64| if rho == 1.0 { v } else { v.powf(1.0 / rho) };
    let (a, b) = (root(from), root(to));
    let power = |v: f64| if rho == 1.0 { v } else { v.powf(rho) };
    (0..=steps).map(|i| power(a + i as f64 / steps as f64 * (b - a))).collect()
}

fn explicit(sigmas: &[f64], steps: usize) -> Result<Grid> {
    if sigmas.len() != steps + 1 {
        let expected = format!("{} sigmas make {} steps", sigmas.len(), sigmas.len().saturating_sub(1));
        return Err(bad("steps", steps, &expected));
    }
    Grid::new(sigmas.to_vec())
}

fn check_range(sigma_min: f64, sigma_max: f64) -> Result<()> {
    if !(sigma_min.is_finite() && sigma_min > 0.0) {
        return Err(bad("sigma-min", number(sigma_min), "must be a finite number above 0"));
    }
    if !(sigma_max.is_finite() && sigma_max > sigma_min) {
        let expected = format!("must be a finite number above `sigma-min = {}`", number(sigma_min));
        return Err(bad("sigma-max", number(sigma_max), &expected));
    }
    Ok(())
}

fn check_rho(rho: f64) -> Result<f64> {
    if rho.is_finite() && (0.01..=1000.0).contains(&rho) {
        return Ok(rho);
    }
    Err(bad("rho", number(rho), "must lie between 0.01 and 1000"))
}

fn bad(name: &'static str, value: impl ToString, expected: &str) -> Error {
    Error::bad_value(name, value, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(grid: &Grid, expected: &[f64], tolerance: f64) {
        assert_eq!(grid.sigmas().len(), expected.len());
        for (a, b) in grid.sigmas().iter().zip(expected) {
            assert!((a - b).abs() <= tolerance * b.abs().max(1e-3), "{:?} is not {expected:?}", grid.sigmas());
        }
    }

    // Expected values: specification of the released grids, six significant digits.
    #[test]
    fn grids_of_the_reference() {
        let edm = (0.002, 80.0);
        close(
            &Schedule::Karras { rho: 7.0 }.grid(4, edm).unwrap(),
            &[80.0, 17.527832, 2.515219, 0.169753, 0.002],
            1e-5,
        );
        close(&Schedule::LogSnr.grid(4, edm).unwrap(), &[80.0, 5.656854, 0.4, 0.0282843, 0.002], 1e-5);
        let uniform = Schedule::TimeUniform { rho: 1.0 }.grid(4, edm).unwrap();
        close(&uniform, &[80.0, 11.734257, 2.823689, 0.856462, 0.002], 1e-5);
        let table = BetaTable::stable_diffusion();
        let sd = Schedule::Discrete { table: table.clone(), rho: 1.0 }.grid(8, table.range()).unwrap();
        let expected = [14.6146, 7.3020, 4.0861, 2.4960, 1.6156, 1.0712, 0.6952, 0.3997, 0.0292];
        close(&sd, &expected, 2e-3);
        let table = BetaTable::lsun_ldm();
        let lsun = Schedule::Discrete { table: table.clone(), rho: 1.0 }.grid(4, table.range()).unwrap();
        close(&lsun, &[83.8225, 10.8539, 2.7689, 0.9823, 0.0388], 2e-3);
        let flux = Schedule::Flow { shift: Shift::for_tokens(1024) }.grid(7, (0.0, 1.0)).unwrap();
        close(&flux, &[1.0, 0.91847, 0.82438, 0.71457, 0.58475, 0.42891, 0.23835, 0.0], 1e-4);
    }

    #[test]
    fn bad_ranges_are_named() {
        let grid = |range| Schedule::Karras { rho: 7.0 }.grid(4, range);
        for (range, name) in [((0.0, 80.0), "sigma-min"), ((2.0, 1.0), "sigma-max"), ((0.1, f64::NAN), "sigma-max")] {
            assert!(matches!(grid(range), Err(Error::BadValue { name: n, .. }) if n == name));
        }
        assert!(Schedule::Karras { rho: 0.0 }.grid(4, (0.1, 1.0)).is_err());
        assert!(Schedule::LogSnr.grid(0, (0.1, 1.0)).is_err());
        assert!(Schedule::Explicit { sigmas: vec![1.0, 2.0] }.grid(1, (0.0, 0.0)).is_err());
    }
}
