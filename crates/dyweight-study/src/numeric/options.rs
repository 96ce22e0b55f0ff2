//! What the study can vary, and the check that it makes sense.

use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// How the paper's "entries sampled from N(0, 0.1/√D)" is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coupling {
    /// 0.1/√D is the standard deviation.
    Std,
    /// 0.1/√D is the variance: eigenvalues reach into the right half-plane.
    Variance,
}

/// What the optimised weights minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndLoss {
    /// Mean of the squared terminal error (the paper's appendix).
    Mse,
    /// Euclidean norm of the terminal error (the paper's main text).
    L2,
}

/// How many exact states a solver starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Startup {
    /// As many as its order (appendix).
    Order,
    /// Four for every order (main text).
    Four,
}

impl Startup {
    /// Number of exact states for a method of this order.
    pub fn states(self, order: usize) -> usize {
        match self {
            Startup::Order => order,
            Startup::Four => 4,
        }
    }
}

macro_rules! named {
    ($type:ident, $kind:literal, $($name:literal => $variant:ident),+) => {
        impl std::str::FromStr for $type {
            type Err = Error;
            fn from_str(name: &str) -> Result<Self> {
                match name {
                    $($name => Ok($type::$variant),)+
                    _ => Err(Error::unknown_name($kind, name, [$($name),+])),
                }
            }
        }

        impl Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($type::$variant => $name),+ })
            }
        }
    };
}

named!(Coupling, "coupling", "std" => Std, "variance" => Variance);
named!(EndLoss, "loss", "mse" => Mse, "l2" => L2);
named!(Startup, "startup", "order" => Order, "four" => Four);

/// Everything the study can vary. The default is the paper's grid.
#[derive(Clone, Debug, PartialEq)]
pub struct NumericOptions {
    /// Degrees K of the true solution.
    pub degrees: Vec<usize>,
    /// Numbers of steps S.
    pub steps: Vec<usize>,
    /// Orders of the Adams–Bashforth methods, 1 to 4.
    pub orders: Vec<usize>,
    /// What all cells have in common.
    pub settings: Settings,
}

/// What all cells have in common: records made with different settings are never mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Dimension D of the state.
    pub dims: usize,
    /// Random problems in a cell, and as many fresh ones.
    pub problems: usize,
    /// Iterations of Adam for each problem.
    pub iterations: usize,
    /// Learning rate of Adam.
    pub lr: f64,
    /// Reading of the coupling's scale.
    pub coupling: Coupling,
    /// What is minimised.
    pub loss: EndLoss,
    /// Exact states at the start.
    pub startup: Startup,
    /// Seed of all random problems.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dims: 50,
            problems: 50,
            iterations: 2000,
            lr: 1e-3,
            coupling: Coupling::Std,
            loss: EndLoss::Mse,
            startup: Startup::Order,
            seed: 0,
        }
    }
}

impl Default for NumericOptions {
    fn default() -> Self {
        Self {
            degrees: (1..=8).map(|i| 5 * i).collect(),
            steps: (3..=10).map(|i| 2 * i).collect(),
            orders: vec![1, 2, 3, 4],
            settings: Settings::default(),
        }
    }
}

impl NumericOptions {
    /// A small grid with few problems, for a first look.
    pub fn quick() -> Self {
        Self {
            degrees: vec![5, 20, 40],
            steps: vec![6, 14, 20],
            settings: Settings { problems: 10, ..Settings::default() },
            ..Self::default()
        }
    }

    /// Number of cells (K, S, order).
    pub fn cells(&self) -> usize {
        self.degrees.len() * self.steps.len() * self.orders.len()
    }

    /// An error that names the first option outside what it may be.
    pub fn validate(&self) -> Result<()> {
        let s = &self.settings;
        each("degrees", &self.degrees, 1..=200)?;
        each("steps", &self.steps, 1..=1000)?;
        each("orders", &self.orders, 1..=4)?;
        within("dims", s.dims, 1..=512)?;
        within("problems", s.problems, 2..=10_000)?;
        within("iterations", s.iterations, 0..=1_000_000)?;
        if !(s.lr.is_finite() && s.lr > 0.0) {
            return Err(bad("lr", s.lr, "a positive number".into()));
        }
        let needed = self.orders.iter().map(|o| s.startup.states(*o)).max().unwrap_or(1);
        if let Some(few) = self.steps.iter().find(|steps| **steps < needed) {
            let problem = format!("{few} steps leave nothing to solve after a start from {needed} exact states");
            return Err(Error::conflict(problem, format!("use at least {needed} steps, or lower orders")));
        }
        Ok(())
    }
}

fn each(name: &'static str, values: &[usize], range: std::ops::RangeInclusive<usize>) -> Result<()> {
    if values.is_empty() {
        return Err(bad(name, "an empty list", "at least one number".into()));
    }
    for (index, value) in values.iter().enumerate() {
        within(name, *value, range.clone())?;
        if values[..index].contains(value) {
            return Err(bad(name, value, "each number only once".into()));
        }
    }
    Ok(())
}

fn within(name: &'static str, value: usize, range: std::ops::RangeInclusive<usize>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(bad(name, value, format!("between {} and {}", range.start(), range.end())))
}

fn bad(name: &'static str, value: impl Display, expected: String) -> Error {
    Error::bad_value(name, value, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_papers_grid() {
        let options = NumericOptions::default();
        options.validate().unwrap();
        NumericOptions::quick().validate().unwrap();
        assert_eq!(options.cells(), 256);
        assert_eq!((options.degrees[7], options.steps[0], options.steps[7]), (40, 6, 20));
    }

    #[test]
    fn each_option_is_checked_by_name() {
        type Change = fn(&mut NumericOptions);
        let wrong: [(Change, &str); 9] = [
            (|o| o.degrees = vec![], "`degrees = an empty list`: at least one number"),
            (|o| o.degrees = vec![5, 0], "`degrees = 0`: between 1 and 200"),
            (|o| o.steps = vec![6, 6], "`steps = 6`: each number only once"),
            (|o| o.orders = vec![5], "`orders = 5`: between 1 and 4"),
            (|o| o.settings.dims = 0, "`dims = 0`: between 1 and 512"),
            (|o| o.settings.problems = 1, "`problems = 1`: between 2 and 10000"),
            (|o| o.settings.iterations = 2_000_000, "`iterations = 2000000`: between 0 and 1000000"),
            (|o| o.settings.lr = f64::NAN, "`lr = NaN`: a positive number"),
            (|o| o.steps = vec![3], "3 steps leave nothing to solve after a start from 4 exact states"),
        ];
        for (change, message) in wrong {
            let mut options = NumericOptions::default();
            change(&mut options);
            assert_eq!(options.validate().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!("variance".parse::<Coupling>().unwrap().to_string(), "variance");
        assert_eq!("l2".parse::<EndLoss>().unwrap(), EndLoss::L2);
        assert!("two".parse::<Startup>().is_err());
    }
}
