//! GITS (Chen et al. 2024, "On the Trajectory Regularity of ODE-based Diffusion Sampling"): a grid for any solver, picked from a teacher's by dynamic
//! programming.
//!
//! ```text
//! c_ij = how far an Euler jump from the teacher's state i lands from its state j > i
//! V_{i,1} = c_{i,P−1};   V_{i,k} = min_j c_ij + γ·V_{j,k−1},  i < j < P−1;   the first j that attains the minimum
//! ```
//!
//! The search is [`shortest`]; the costs are measured where there are samples, in the trainer. What is learned is a list of levels.

use crate::Base;
use crate::learned::{Block, Built, Frame, LearnedSolver};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::Grid;
use serde::{Deserialize, Serialize};

/// How an Euler jump is compared with the teacher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Distance from the line between first and last state, less the teacher's own.
    #[default]
    Dev,
    /// Sum of absolute differences.
    L1,
    /// Euclidean distance.
    L2,
}

/// A grid found, and the solver it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gits {
    /// The solver.
    #[serde(flatten)]
    pub base: Base,
    /// The cost it was found by.
    #[serde(default)]
    pub cost: Cost,
    /// γ.
    #[serde(default = "usual")]
    pub factor: f64,
    /// Which points of the teacher's grid were picked.
    #[serde(default)]
    pub indices: Vec<usize>,
    /// The levels.
    pub sigmas: Vec<f64>,
}

fn usual() -> f64 {
    1.15
}

impl LearnedSolver for Gits {
    fn steps(&self) -> Option<usize> {
        Some(self.sigmas.len().saturating_sub(1))
    }

    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    fn params(&self) -> Vec<f64> {
        Vec::new()
    }

    fn replace(&mut self, _: &[f64]) {}

    fn check(&self) -> Result<()> {
        Grid::new(self.sigmas.clone())?;
        self.base.build(false).map(drop)
    }

    fn build(&self, _: &[Coeff], frame: &Frame) -> Result<Built> {
        let times = self.sigmas.iter().map(|s| Coeff::from(*s)).collect();
        Ok(Built { solver: self.base.build(frame.bounded)?, times })
    }

    fn base(&self) -> Option<Base> {
        Some(self.base.clone())
    }

    fn summary(&self) -> String {
        format!("a grid for {}, points {:?}", self.base.name, self.indices)
    }

    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        [("indices".to_string(), serde_json::json!(self.indices))].into_iter().collect()
    }
}

/// The cheapest way from the first point to the last in `steps` jumps; `cost[i][j]` is the cost of the jump from i to j > i.
pub fn shortest(cost: &[Vec<f64>], steps: usize, factor: f64) -> Result<Vec<usize>> {
    let last = cost.len().saturating_sub(1);
    if steps == 0 || steps > last {
        let expected = format!("a grid of {} points is left in 1 to {last} steps", cost.len());
        return Err(Error::BadValue { name: "steps", value: steps.to_string(), expected });
    }
    // value[k][i]: from point i to the last in k + 1 jumps; none where there is no such way.
    let mut value: Vec<Vec<Option<f64>>> = vec![(0..last).map(|i| Some(cost[i][last])).collect()];
    let mut next: Vec<Vec<usize>> = vec![vec![last; last]];
    for k in 1..steps {
        let best = |i: usize| {
            let mut found: Option<(f64, usize)> = None;
            for j in i + 1..last {
                let Some(rest) = value[k - 1][j] else { continue };
                let all = cost[i][j] + factor * rest;
                if found.is_none_or(|(least, _)| all < least) {
                    found = Some((all, j));
                }
            }
            found
        };
        let found: Vec<Option<(f64, usize)>> = (0..last).map(best).collect();
        value.push(found.iter().map(|f| f.map(|(v, _)| v)).collect());
        next.push(found.iter().map(|f| f.map_or(last, |(_, j)| j)).collect());
    }
    let mut way = vec![0];
    for k in (0..steps).rev() {
        way.push(next[k][way[way.len() - 1]]);
    }
    Ok(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four points: straight to the end costs 9, over 1 it costs 1 + 4γ, over 2 it costs 3 + 1γ.
    #[test]
    fn the_cheapest_way_by_hand() {
        let cost = vec![vec![0.0, 1.0, 3.0, 9.0], vec![0.0, 0.0, 2.0, 4.0], vec![0.0, 0.0, 0.0, 1.0], vec![0.0; 4]];
        assert_eq!(shortest(&cost, 1, 1.0).unwrap(), [0, 3]);
        assert_eq!(shortest(&cost, 2, 1.0).unwrap(), [0, 2, 3]);
        assert_eq!(shortest(&cost, 2, 0.1).unwrap(), [0, 1, 3]);
        assert_eq!(shortest(&cost, 3, 1.0).unwrap(), [0, 1, 2, 3]);
        assert!(shortest(&cost, 4, 1.0).is_err() && shortest(&cost, 0, 1.0).is_err());
    }
}
