//! Scalars that remember how they were made.
//!
//! A solver's coefficients, times and levels are [`Coeff`]s: one number for a batch, or one for each sample
//! ([`Coeff::each`]). A constant costs nothing more than its number. A [`Coeff::parameter`] starts a record: every
//! result computed from it keeps its parents with the partial derivatives, so that [`Adjoints::pull_back`] can carry
//! derivatives from wherever coefficients were used (the dot products of [`crate::tape`]) to the parameters. A small
//! network that makes coefficients is one record with a pullback of its own ([`Coeff::function`]). Derivatives are kept
//! per sample and summed by the caller in sample order, which makes gradients independent of how a batch is split.
//!
//! ```
//! use dyweight_core::coeff::{Adjoints, Coeff};
//! let (a, b) = (Coeff::parameter(2.0, 0), Coeff::parameter(3.0, 1));
//! let product = &a * &b + 1.0;
//! let mut adjoints = Adjoints::default();
//! adjoints.add(&product, &[1.0]);
//! assert_eq!((product.value(), adjoints.pull_back(2, 1)), (7.0, vec![vec![3.0], vec![2.0]]));
//! ```

use std::collections::BTreeMap;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A scalar, constant or recorded.
#[derive(Clone, Debug)]
pub struct Coeff {
    numbers: Numbers,
    node: Option<Arc<Node>>,
}

/// One number for all samples, or one for each.
#[derive(Clone, Debug)]
enum Numbers {
    One(f64),
    Each(Arc<[f64]>),
}

impl Numbers {
    fn of(&self, sample: usize) -> f64 {
        match self {
            Numbers::One(value) => *value,
            Numbers::Each(values) => values[sample],
        }
    }

    /// A function of the numbers, with its partial derivative.
    fn map(&self, f: impl Fn(f64) -> (f64, f64)) -> (Self, Self) {
        match self {
            Numbers::One(value) => {
                let (y, dy) = f(*value);
                (Numbers::One(y), Numbers::One(dy))
            }
            Numbers::Each(values) => {
                let (y, dy): (Vec<f64>, Vec<f64>) = values.iter().map(|v| f(*v)).unzip();
                (Numbers::Each(y.into()), Numbers::Each(dy.into()))
            }
        }
    }

    /// A function of two, with its partial derivatives.
    fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> (f64, (f64, f64))) -> (Self, (Self, Self)) {
        let samples = match (self, other) {
            (Numbers::One(a), Numbers::One(b)) => {
                let (y, (da, db)) = f(*a, *b);
                return (Numbers::One(y), (Numbers::One(da), Numbers::One(db)));
            }
            (Numbers::Each(values), _) | (_, Numbers::Each(values)) => values.len(),
        };
        let (mut y, mut to_self, mut to_other) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..samples {
            let (value, partials) = f(self.of(i), other.of(i));
            y.push(value);
            to_self.push(partials.0);
            to_other.push(partials.1);
        }
        (Numbers::Each(y.into()), (Numbers::Each(to_self.into()), Numbers::Each(to_other.into())))
    }
}

/// Carries ∂L/∂results to ∂L/∂inputs, each `[number][sample]`.
pub type FunctionPullback = Box<dyn Fn(&[Vec<f64>]) -> Vec<Vec<f64>> + Send + Sync>;

struct Node {
    /// Grows with creation: a result's is larger than its parents'.
    id: u64,
    origin: Origin,
}

/// How a recorded number came about.
enum Origin {
    /// A parameter, by its index.
    Parameter(usize),
    /// An expression: parents with the partial derivatives in them.
    Expression(Vec<(Arc<Node>, Numbers)>),
    /// A function of several results; inputs that are constants take no derivative.
    Function { inputs: Vec<Option<Arc<Node>>>, results: usize, pullback: FunctionPullback },
    /// One result of a function.
    Result(Arc<Node>, usize),
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {}", self.id)
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn node(origin: Origin) -> Arc<Node> {
    Arc::new(Node { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), origin })
}

impl Coeff {
    /// A value whose derivative is wanted, reported under `index`.
    pub fn parameter(value: f64, index: usize) -> Self {
        Self { numbers: Numbers::One(value), node: Some(node(Origin::Parameter(index))) }
    }

    /// A constant of its own for each sample.
    pub fn each(values: impl Into<Arc<[f64]>>) -> Self {
        Self { numbers: Numbers::Each(values.into()), node: None }
    }

    /// The results `[result][sample]` of a function of `inputs`, which `pullback` differentiates. Constants stay
    /// constant.
    pub fn function(inputs: &[Coeff], results: Vec<Vec<f64>>, pullback: FunctionPullback) -> Vec<Coeff> {
        let nodes: Vec<_> = inputs.iter().map(|c| c.node.clone()).collect();
        let recorded = nodes.iter().any(Option::is_some);
        let of = recorded.then(|| node(Origin::Function { inputs: nodes, results: results.len(), pullback }));
        let result = |(k, values): (usize, Vec<f64>)| {
            let node = of.as_ref().map(|of| node(Origin::Result(of.clone(), k)));
            Coeff { numbers: Numbers::Each(values.into()), node }
        };
        results.into_iter().enumerate().map(result).collect()
    }

    /// The number. Of one number per sample it is the first, good for messages and for decisions that are the same for
    /// all.
    pub fn value(&self) -> f64 {
        match &self.numbers {
            Numbers::One(value) => *value,
            Numbers::Each(values) => values.first().copied().unwrap_or(f64::NAN),
        }
    }

    /// The number of a sample.
    pub fn of(&self, sample: usize) -> f64 {
        self.numbers.of(sample)
    }

    /// The numbers of all samples, where they differ.
    pub fn per_sample(&self) -> Option<&[f64]> {
        match &self.numbers {
            Numbers::One(_) => None,
            Numbers::Each(values) => Some(values),
        }
    }

    /// True if derivatives flow through it.
    pub fn is_recorded(&self) -> bool {
        self.node.is_some()
    }

    /// The same numbers, as constants.
    pub fn detached(&self) -> Self {
        Self { numbers: self.numbers.clone(), node: None }
    }

    fn unary(&self, f: impl Fn(f64) -> (f64, f64)) -> Self {
        let (numbers, partial) = self.numbers.map(f);
        let node = self.node.as_ref().map(|n| node(Origin::Expression(vec![(n.clone(), partial)])));
        Self { numbers, node }
    }

    fn binary(&self, other: &Self, f: impl Fn(f64, f64) -> (f64, (f64, f64))) -> Self {
        let (numbers, (to_self, to_other)) = self.numbers.zip(&other.numbers, f);
        if self.node.is_none() && other.node.is_none() {
            return Self { numbers, node: None };
        }
        let parents: Vec<_> = [(self, to_self), (other, to_other)]
            .into_iter()
            .filter_map(|(c, partial)| c.node.as_ref().map(|n| (n.clone(), partial)))
            .collect();
        Self { numbers, node: (!parents.is_empty()).then(|| node(Origin::Expression(parents))) }
    }

    /// eᶜ.
    pub fn exp(&self) -> Self {
        self.unary(|v| (v.exp(), v.exp()))
    }

    /// eᶜ − 1.
    pub fn exp_m1(&self) -> Self {
        self.unary(|v| (v.exp_m1(), v.exp()))
    }

    /// ln c.
    pub fn ln(&self) -> Self {
        self.unary(|v| (v.ln(), 1.0 / v))
    }

    /// ln(1 + c).
    pub fn ln_1p(&self) -> Self {
        self.unary(|v| (v.ln_1p(), 1.0 / (1.0 + v)))
    }

    /// √c.
    pub fn sqrt(&self) -> Self {
        self.unary(|v| (v.sqrt(), 0.5 / v.sqrt()))
    }

    /// |c|, with derivative +1 at 0.
    pub fn abs(&self) -> Self {
        self.unary(|v| (v.abs(), if v < 0.0 { -1.0 } else { 1.0 }))
    }

    /// 1/(1 + e⁻ᶜ).
    pub fn sigmoid(&self) -> Self {
        self.unary(|v| {
            let s = 1.0 / (1.0 + (-v).exp());
            (s, s * (1.0 - s))
        })
    }

    /// 1/c.
    pub fn recip(&self) -> Self {
        self.unary(|v| (1.0 / v, -1.0 / (v * v)))
    }

    /// c between two bounds; beyond them, and on them, there is no derivative.
    pub fn clamp(&self, low: f64, high: f64) -> Self {
        self.unary(|v| if v > low && v < high { (v, 1.0) } else { (v.clamp(low, high), 0.0) })
    }

    /// Σ c.
    pub fn sum<'a>(terms: impl IntoIterator<Item = &'a Coeff>) -> Self {
        terms.into_iter().fold(Coeff::from(0.0), |sum, c| sum + c)
    }

    /// constant + Σ aᵢcᵢ as one record, however many terms: what tables of a basis are evaluated by. Terms are one
    /// number for all samples.
    pub fn affine<'a>(constant: f64, terms: impl IntoIterator<Item = (f64, &'a Coeff)>) -> Self {
        let (mut value, mut parents) = (constant, Vec::new());
        for (factor, term) in terms {
            value += factor * term.value();
            parents.extend(term.node.as_ref().map(|n| (n.clone(), Numbers::One(factor))));
        }
        Self { numbers: Numbers::One(value), node: (!parents.is_empty()).then(|| node(Origin::Expression(parents))) }
    }

    /// eᶜⁱ/Σ eᶜ, shifted by the largest so that nothing overflows.
    pub fn softmax(logits: &[Coeff]) -> Vec<Coeff> {
        let largest = logits.iter().map(Coeff::value).fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<Coeff> = logits.iter().map(|c| (c - largest).exp()).collect();
        let sum = Coeff::sum(&powers);
        powers.iter().map(|p| p / &sum).collect()
    }
}

impl From<f64> for Coeff {
    fn from(value: f64) -> Self {
        Self { numbers: Numbers::One(value), node: None }
    }
}

impl Neg for &Coeff {
    type Output = Coeff;
    fn neg(self) -> Coeff {
        self.unary(|v| (-v, -1.0))
    }
}

impl Neg for Coeff {
    type Output = Coeff;
    fn neg(self) -> Coeff {
        -&self
    }
}

/// One formula for a result and its two partial derivatives serves references, values and plain numbers alike.
macro_rules! operator {
    ($trait:ident, $method:ident, |$a:ident, $b:ident| $value:expr, $partials:expr) => {
        impl $trait<&Coeff> for &Coeff {
            type Output = Coeff;
            fn $method(self, other: &Coeff) -> Coeff {
                self.binary(other, |$a, $b| ($value, $partials))
            }
        }
        operator!(forward $trait, $method, Coeff, Coeff);
        operator!(forward $trait, $method, Coeff, &Coeff);
        operator!(forward $trait, $method, &Coeff, Coeff);
        operator!(forward $trait, $method, Coeff, f64);
        operator!(forward $trait, $method, &Coeff, f64);
        operator!(forward $trait, $method, f64, Coeff);
        operator!(forward $trait, $method, f64, &Coeff);
    };
    (forward $trait:ident, $method:ident, $left:ty, $right:ty) => {
        impl $trait<$right> for $left {
            type Output = Coeff;
            fn $method(self, other: $right) -> Coeff {
                $trait::$method(&Coeff::from_any(self), &Coeff::from_any(other))
            }
        }
    };
}

operator!(Add, add, |a, b| a + b, (1.0, 1.0));
operator!(Sub, sub, |a, b| a - b, (1.0, -1.0));
operator!(Mul, mul, |a, b| a * b, (b, a));
operator!(Div, div, |a, b| a / b, (1.0 / b, -a / (b * b)));

impl Coeff {
    fn from_any(value: impl Into<Coeff>) -> Self {
        value.into()
    }
}

impl From<&Coeff> for Coeff {
    fn from(value: &Coeff) -> Self {
        value.clone()
    }
}

/// Derivatives with respect to coefficients, one number per sample, collected where coefficients are used.
#[derive(Default)]
pub struct Adjoints(BTreeMap<u64, (Arc<Node>, Vec<Vec<f64>>)>);

impl Adjoints {
    /// Adds a derivative of the loss with respect to `coeff`, per sample. Constants take none.
    pub fn add(&mut self, coeff: &Coeff, per_sample: &[f64]) {
        if let Some(node) = &coeff.node {
            self.row(node, per_sample.len()).iter_mut().zip(per_sample).for_each(|(s, v)| *s += v);
        }
    }

    /// The sum a record has received so far; a function has one for each of its results.
    fn row(&mut self, node: &Arc<Node>, samples: usize) -> &mut Vec<f64> {
        let (of, k) = match &node.origin {
            Origin::Result(of, k) => (of, *k),
            _ => (node, 0),
        };
        let rows = if let Origin::Function { results, .. } = &of.origin { *results } else { 1 };
        let (_, sums) = self.0.entry(of.id).or_insert_with(|| (of.clone(), vec![vec![0.0; samples]; rows]));
        &mut sums[k]
    }

    /// Carries everything back to the parameters: for each of `count` parameters, its derivative per sample.
    pub fn pull_back(mut self, count: usize, samples: usize) -> Vec<Vec<f64>> {
        let mut gradients = vec![vec![0.0; samples]; count];
        // Parents are older than their results, so the newest entry has received all it will get.
        while let Some((_, (node, adjoints))) = self.0.pop_last() {
            match &node.origin {
                Origin::Parameter(index) => {
                    gradients[*index].iter_mut().zip(&adjoints[0]).for_each(|(g, a)| *g += a);
                }
                Origin::Expression(parents) => {
                    for (parent, partial) in parents {
                        let sums = self.row(parent, samples).iter_mut();
                        match partial {
                            Numbers::One(p) => sums.zip(&adjoints[0]).for_each(|(s, a)| *s += p * a),
                            Numbers::Each(p) => {
                                sums.zip(&adjoints[0]).zip(p.iter()).for_each(|((s, a), p)| *s += p * a);
                            }
                        }
                    }
                }
                Origin::Function { inputs, pullback, .. } => {
                    for (input, to_input) in inputs.iter().zip(pullback(&adjoints)) {
                        if let Some(input) = input {
                            self.row(input, samples).iter_mut().zip(&to_input).for_each(|(s, a)| *s += a);
                        }
                    }
                }
                // Results hand their share to the function at once.
                Origin::Result(..) => {}
            }
        }
        gradients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(f: impl Fn(&[Coeff]) -> Coeff, at: &[f64]) -> Vec<f64> {
        let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
        let mut adjoints = Adjoints::default();
        adjoints.add(&f(&parameters), &[1.0]);
        adjoints.pull_back(at.len(), 1).into_iter().map(|g| g[0]).collect()
    }

    #[test]
    fn every_operation_agrees_with_finite_differences() {
        let f = |c: &[Coeff]| {
            let (a, b) = (&c[0], &c[1]);
            let x = (a * b - 1.5) / (a + 2.0 * b) + (-a).exp() * b.exp_m1();
            let soft = &Coeff::softmax(&[a.clone(), b.clone(), a * b])[1];
            let y =
                (a * a).ln_1p().sqrt() * soft.clamp(-9.0, 9.0) - b.ln() + (a - 3.0 * b).abs() + b.sigmoid() / a.recip();
            Coeff::sum([&x, &y]) * a + 2.0 / b
        };
        let at = [0.7, 1.3];
        for (i, g) in gradient(f, &at).into_iter().enumerate() {
            let shifted = |h: f64| {
                let mut p = at;
                p[i] += h;
                f(&p.map(Coeff::from)).value()
            };
            assert!((g - (shifted(1e-6) - shifted(-1e-6)) / 2e-6).abs() < 1e-7 * g.abs().max(1.0));
        }
    }

    #[test]
    fn an_affine_function_is_one_record() {
        let f = |c: &[Coeff]| Coeff::affine(0.5, [(2.0, &c[0]), (-3.0, &c[1]), (1.0, &c[0])]);
        assert_eq!(f(&[Coeff::from(0.7), Coeff::from(1.5)]).value(), 0.5 + 1.4 - 4.5 + 0.7);
        assert_eq!(gradient(f, &[0.7, 1.5]), [3.0, -3.0]);
        assert!(!Coeff::affine(1.0, [(2.0, &Coeff::from(1.0))]).is_recorded());
    }

    #[test]
    fn samples_may_have_numbers_of_their_own() {
        let (a, scale) = (Coeff::parameter(0.5, 0), Coeff::each([1.0, -2.0, 3.0]));
        let y = (&a * &scale + 1.0).exp();
        assert_eq!(y.per_sample().map(<[f64]>::len), Some(3));
        let mut adjoints = Adjoints::default();
        adjoints.add(&y, &[1.0, 1.0, 10.0]);
        let gradient = adjoints.pull_back(1, 3).remove(0);
        for (i, (scale, weight)) in [(1.0, 1.0), (-2.0, 1.0), (3.0, 10.0)].into_iter().enumerate() {
            assert!((gradient[i] - weight * scale * (0.5f64 * scale + 1.0).exp()).abs() < 1e-12);
        }
    }

    /// f(a, b) = (a·b, a + b²) for each of two samples, through a pullback of its own.
    #[test]
    fn a_function_has_its_own_pullback() {
        let inputs = [Coeff::parameter(2.0, 0), Coeff::parameter(3.0, 1)];
        let (a, b) = (inputs[0].value(), inputs[1].value());
        let results = vec![vec![a * b; 2], vec![a + b * b; 2]];
        let pullback = move |g: &[Vec<f64>]| {
            let to = |f: &dyn Fn(f64, f64) -> f64| g[0].iter().zip(&g[1]).map(|(p, q)| f(*p, *q)).collect();
            vec![to(&|p, q| b * p + q), to(&|p, q| a * p + 2.0 * b * q)]
        };
        let made = Coeff::function(&inputs, results, Box::new(pullback));
        let mut adjoints = Adjoints::default();
        adjoints.add(&(&made[0] * 2.0), &[1.0, 0.0]);
        adjoints.add(&made[1], &[0.0, 1.0]);
        assert_eq!(adjoints.pull_back(2, 2), vec![vec![6.0, 1.0], vec![4.0, 6.0]]);
    }

    #[test]
    fn constants_record_nothing() {
        assert!(!(Coeff::from(1.0) + 2.0).exp().is_recorded());
        assert!((Coeff::parameter(1.0, 0) * 0.0).is_recorded());
    }
}
