//! DyWeight for any budget: a solver for each number of steps that was trained, and what lies between two of them for the others, so that one
//! file serves a range of budgets.
//!
//! ```text
//! S trained         w, s = those that were learned
//! A < S < B         wᵢₖ = AB(min(i + 1, window))ₖ + α·δᴬₖ(xᴬ) + β·δᴮₖ(xᴮ)       k: slopes back, 0 the newest
//!                   sᵢ  =                           α·sᴬ(xᴬ)  + β·sᴮ(xᴮ)
//!
//! δⱼₖ = wⱼₖ − AB(min(j + 1, window))ₖ     α = (1/S − 1/B)/(1/A − 1/B),  β = 1 − α
//! x   = step i of S among the steps of A or B: 0 → 0, 1 → 1, the last two → the last two, those between in proportion
//! ```
//!
//! A and B are the neighbours of S among the budgets that were trained, and δ and s at an x between two steps go linearly from one to the
//! other. Corrections of a multistep method on an uneven grid go with the step length 1/S, which is therefore the variable. The first two steps have fewer
//! slopes than the others and the last two end at the data: they are unlike the rest and stand for themselves. What one budget
//! needs does not pull at another; smooth functions of step and budget (polynomials) fitted less well and ran away in between. The method is
//! ours.

use crate::Weights;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, split};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DyWeight, Initial, Rows, Scales};
use serde::{Deserialize, Serialize};

/// The longest grid.
const MOST_STEPS: usize = 1000;

/// The numbers of DyWeight for a range of budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnyBudget {
    /// Solvers of the budgets that were trained, the number of steps rising. It serves every budget from the first to the last.
    pub trained: Vec<Trained>,
}

/// The numbers of one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Weights, newest last; a row for each step.
    pub weights: Rows,
    /// Scales of the levels told to the network, of the last steps.
    pub time_scale: Scales,
}

/// Where a step of one budget lies among those of another: between a step and the next, and how far.
struct Place {
    step: usize,
    beyond: f64,
}

impl AnyBudget {
    /// iPNDM of this window at all of these numbers of steps, whose first is analytical or not.
    pub fn start(window: usize, steps: &[usize], afs: bool) -> Self {
        let scales = |steps: usize| vec![1.0; steps.saturating_sub(usize::from(afs))];
        let of = |steps: usize| Trained { weights: Initial::Ab.rows(steps, window), time_scale: scales(steps) };
        Self { trained: distinct(steps).into_iter().map(of).collect() }
    }

    /// The same with solvers for other numbers of steps of its range: what is new there is what the neighbours gave.
    pub fn with_budgets(&self, steps: &[usize]) -> Result<Self> {
        let of =
            |steps: usize| self.weights_of(steps).map(|w| Trained { weights: w.weights, time_scale: w.time_scale });
        Ok(Self { trained: distinct(steps).into_iter().map(of).collect::<Result<_>>()? })
    }

    /// The fewest and the most steps it serves.
    pub fn range(&self) -> (usize, usize) {
        let steps = |trained: Option<&Trained>| trained.map_or(0, Trained::steps);
        (steps(self.trained.first()), steps(self.trained.last()))
    }

    /// Window: the most slopes a step weighs.
    pub fn window(&self) -> usize {
        self.trained.iter().flat_map(|t| &t.weights).map(Vec::len).max().unwrap_or(0)
    }

    /// The numbers of a run of so many steps: a DyWeight solver like any other.
    pub fn weights_of(&self, steps: usize) -> Result<Weights> {
        let numbers: Vec<Coeff> = self.numbers().into_iter().map(Coeff::from).collect();
        let (rows, scales) = self.of(&self.cut(&numbers), steps)?;
        let value = |list: &Vec<Coeff>| list.iter().map(Coeff::value).collect();
        let weights = Weights::new(rows.iter().map(value).collect(), value(&scales));
        weights.check()?;
        Ok(weights)
    }

    /// Rows and scales of every budget that was trained.
    fn cut<T: Clone>(&self, numbers: &[T]) -> Vec<(Vec<Vec<T>>, Vec<T>)> {
        let rows = self.trained.iter().flat_map(|t| &t.weights).map(Vec::len);
        let lengths = rows.chain(self.trained.iter().map(|t| t.time_scale.len()));
        let mut parts = split(numbers, lengths).into_iter().map(<[T]>::to_vec);
        let rows: Vec<Vec<Vec<T>>> = self.trained.iter().map(|t| parts.by_ref().take(t.steps()).collect()).collect();
        rows.into_iter().zip(parts).collect()
    }

    /// Weights, newest last, and scales of a run of so many steps.
    fn of(&self, trained: &[(Vec<Vec<Coeff>>, Vec<Coeff>)], steps: usize) -> Result<(Vec<Vec<Coeff>>, Vec<Coeff>)> {
        let (least, most) = self.range();
        if !(least..=most).contains(&steps) {
            let expected = format!("the numbers serve {least} to {most} steps");
            return Err(Error::BadValue { name: "steps", value: steps.to_string(), expected });
        }
        let above = self.trained.partition_point(|t| t.steps() < steps);
        if self.trained[above].steps() == steps {
            return Ok(trained[above].clone());
        }
        let near = &trained[above - 1..=above];
        let [few, own, many] = [near[0].0.len(), steps, near[1].0.len()].map(|s| 1.0 / s as f64);
        let shares = [(own - many) / (few - many), (few - own) / (few - many)];
        let start = Initial::Ab.rows(steps, self.window());
        let weights = |(i, row): (usize, &Vec<f64>)| -> Vec<Coeff> {
            (0..row.len()).map(|j| between(row[j], row.len() - 1 - j, i, steps, near, shares)).collect()
        };
        // Scales are those of the last steps.
        let without = near[0].0.len() - near[0].1.len();
        let scale = |i: usize| {
            let terms = near.iter().zip(shares).flat_map(|((rows, scales), share)| {
                let place = Place::of(i, steps, rows.len()).parts(rows.len());
                place.map(move |(step, part)| {
                    (share * part, &scales[step.saturating_sub(without).min(scales.len() - 1)])
                })
            });
            Coeff::affine(0.0, terms)
        };
        Ok((start.iter().enumerate().map(weights).collect(), (without..steps).map(scale).collect()))
    }
}

/// The weight of a slope `back` from the newest in step `i`, which is `start` before any training.
fn between(
    start: f64,
    back: usize,
    i: usize,
    steps: usize,
    near: &[(Vec<Vec<Coeff>>, Vec<Coeff>)],
    shares: [f64; 2],
) -> Coeff {
    let mut constant = start;
    let mut terms = Vec::new();
    for ((rows, _), share) in near.iter().zip(shares) {
        for (step, part) in Place::of(i, steps, rows.len()).parts(rows.len()) {
            let row = &rows[step];
            // A step that does not reach so far back has learned nothing about it.
            if let Some(place) = row.len().checked_sub(back + 1) {
                constant -= share * part * Initial::Ab.rows(step + 1, row.len())[step][place];
                terms.push((share * part, &row[place]));
            }
        }
    }
    Coeff::affine(constant, terms)
}

impl Place {
    /// Step `i` of `steps` among the steps of another budget.
    fn of(i: usize, steps: usize, among: usize) -> Self {
        if steps < 4 || among < 3 {
            let x = i as f64 * among.saturating_sub(1) as f64 / steps.saturating_sub(1).max(1) as f64;
            return Self { step: x as usize, beyond: x.fract() };
        }
        match (i, steps - 1 - i) {
            (0, _) => Self { step: 0, beyond: 0.0 },
            (_, 0) => Self { step: among - 1, beyond: 0.0 },
            _ => {
                // From the second step to the last but one.
                let x = (i - 1) as f64 * (among - 3) as f64 / (steps - 3) as f64;
                Self { step: 1 + x as usize, beyond: x.fract() }
            }
        }
    }

    /// The steps it lies between, with the share of each.
    fn parts(self, steps: usize) -> impl Iterator<Item = (usize, f64)> {
        let both = [(self.step, 1.0 - self.beyond), ((self.step + 1).min(steps - 1), self.beyond)];
        both.into_iter().filter(|(_, part)| *part > 0.0)
    }
}

impl Trained {
    fn steps(&self) -> usize {
        self.weights.len()
    }
}

fn distinct(steps: &[usize]) -> Vec<usize> {
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    steps.dedup();
    steps
}

impl LearnedSolver for AnyBudget {
    fn steps(&self) -> Option<usize> {
        None
    }

    fn blocks(&self) -> Vec<Block> {
        let weights = self.trained.iter().flat_map(|t| &t.weights).map(Vec::len).sum();
        let scales = self.trained.iter().map(|t| t.time_scale.len()).sum();
        vec![Block::new("weights", &[weights]), Block::new("time_scale", &[scales])]
    }

    fn numbers(&self) -> Vec<f64> {
        let weights = self.trained.iter().flat_map(|t| t.weights.iter().flatten());
        weights.chain(self.trained.iter().flat_map(|t| &t.time_scale)).copied().collect()
    }

    fn replace(&mut self, numbers: &[f64]) {
        let trained = self.cut(numbers).into_iter();
        self.trained = trained.map(|(weights, time_scale)| Trained { weights, time_scale }).collect();
    }

    fn check(&self) -> Result<()> {
        let steps: Vec<usize> = self.trained.iter().map(Trained::steps).collect();
        let (least, most) = self.range();
        if least == 0 || most > MOST_STEPS || !steps.is_sorted_by(|a, b| a < b) {
            let expected = format!("solvers of 1 to {MOST_STEPS} steps, each of more than the one before");
            return Err(Error::BadValue { name: "trained", value: format!("{:.80}", format!("{steps:?}")), expected });
        }
        let window = self.window();
        let without = least.checked_sub(self.trained[0].time_scale.len()).filter(|n| *n <= 1);
        for trained in &self.trained {
            let (steps, what) = (trained.steps(), format!("weights of {} steps", trained.steps()));
            let expected: Vec<usize> = (1..=steps).map(|row| row.min(window)).collect();
            let found: Vec<usize> = trained.weights.iter().map(Vec::len).collect();
            if found != expected {
                return Err(Error::Shape { what, expected, found });
            }
            if without.is_none_or(|without| trained.time_scale.len() + without != steps)
                || trained.time_scale.is_empty()
            {
                let what = format!("time_scale of {steps} steps: as many, or one fewer for all");
                let (expected, found) = (vec![steps - without.unwrap_or(0)], vec![trained.time_scale.len()]);
                return Err(Error::Shape { what, expected, found });
            }
        }
        require_finite("weights and time_scale", &self.numbers())
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        let (rows, scales) = self.of(&self.cut(numbers), frame.grid.steps())?;
        Ok(Built { solver: Box::new(DyWeight::new(rows, scales)?), times: frame.grid.coeffs() })
    }

    fn summary(&self) -> String {
        let (least, most) = self.range();
        format!("window {}, one solver for each of {least} to {most} steps", self.window())
    }
}
