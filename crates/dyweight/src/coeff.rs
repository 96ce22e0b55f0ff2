//! Scalars that remember how they were made.
//!
//! A solver's coefficients, times and levels are [`Coeff`]s. A constant is a plain f64 and costs nothing more. A
//! [`Coeff::parameter`] starts a record: every result computed from it keeps its parents with the partial
//! derivatives, so that [`Adjoints::pull_back`] can carry derivatives from wherever coefficients were used (the dot products of
//! [`crate::path`]) to the parameters. Derivatives are kept per sample and summed by the caller in sample order, which
//! makes gradients independent of how a batch is split.

use std::collections::BTreeMap;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A scalar, constant or recorded.
#[derive(Clone, Debug)]
pub struct Coeff {
    value: f64,
    node: Option<Arc<Node>>,
}

#[derive(Debug)]
struct Node {
    /// Grows with creation: a result's is larger than its parents'.
    id: u64,
    /// Index of the parameter, for a leaf.
    parameter: Option<usize>,
    parents: Vec<(Arc<Node>, f64)>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn node(parameter: Option<usize>, parents: Vec<(Arc<Node>, f64)>) -> Arc<Node> {
    Arc::new(Node { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), parameter, parents })
}

impl Coeff {
    /// A value whose derivative is wanted, reported under `index`.
    pub fn parameter(value: f64, index: usize) -> Self {
        Self { value, node: Some(node(Some(index), Vec::new())) }
    }

    /// The number.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// True if derivatives flow through it.
    pub fn is_recorded(&self) -> bool {
        self.node.is_some()
    }

    fn unary(&self, value: f64, partial: f64) -> Self {
        let node = self.node.as_ref().map(|n| node(None, vec![(n.clone(), partial)]));
        Self { value, node }
    }

    fn binary(&self, other: &Self, value: f64, partials: (f64, f64)) -> Self {
        let parents: Vec<_> = [(self, partials.0), (other, partials.1)]
            .into_iter()
            .filter_map(|(c, partial)| c.node.as_ref().map(|n| (n.clone(), partial)))
            .collect();
        Self { value, node: (!parents.is_empty()).then(|| node(None, parents)) }
    }

    /// eᶜ.
    pub fn exp(&self) -> Self {
        let e = self.value.exp();
        self.unary(e, e)
    }

    /// eᶜ − 1.
    pub fn exp_m1(&self) -> Self {
        self.unary(self.value.exp_m1(), self.value.exp())
    }

    /// ln c.
    pub fn ln(&self) -> Self {
        self.unary(self.value.ln(), 1.0 / self.value)
    }

    /// ln(1 + c).
    pub fn ln_1p(&self) -> Self {
        self.unary(self.value.ln_1p(), 1.0 / (1.0 + self.value))
    }

    /// √c.
    pub fn sqrt(&self) -> Self {
        let root = self.value.sqrt();
        self.unary(root, 0.5 / root)
    }

    /// |c|, with derivative +1 at 0.
    pub fn abs(&self) -> Self {
        self.unary(self.value.abs(), if self.value < 0.0 { -1.0 } else { 1.0 })
    }

    /// 1/(1 + e⁻ᶜ).
    pub fn sigmoid(&self) -> Self {
        let s = 1.0 / (1.0 + (-self.value).exp());
        self.unary(s, s * (1.0 - s))
    }

    /// 1/c.
    pub fn recip(&self) -> Self {
        self.unary(1.0 / self.value, -1.0 / (self.value * self.value))
    }

    /// Σ c.
    pub fn sum<'a>(terms: impl IntoIterator<Item = &'a Coeff>) -> Self {
        terms.into_iter().fold(Coeff::from(0.0), |sum, c| sum + c)
    }
}

impl From<f64> for Coeff {
    fn from(value: f64) -> Self {
        Self { value, node: None }
    }
}

impl Neg for &Coeff {
    type Output = Coeff;
    fn neg(self) -> Coeff {
        self.unary(-self.value, -1.0)
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
                let ($a, $b) = (self.value, other.value);
                self.binary(other, $value, $partials)
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
pub struct Adjoints(BTreeMap<u64, (Arc<Node>, Vec<f64>)>);

impl Adjoints {
    /// Adds a derivative of the loss with respect to `coeff`, per sample. Constants take none.
    pub fn add(&mut self, coeff: &Coeff, per_sample: &[f64]) {
        if let Some(node) = &coeff.node {
            self.add_node(node, per_sample, 1.0);
        }
    }

    fn add_node(&mut self, node: &Arc<Node>, per_sample: &[f64], factor: f64) {
        let (_, sum) = self.0.entry(node.id).or_insert_with(|| (node.clone(), vec![0.0; per_sample.len()]));
        for (s, v) in sum.iter_mut().zip(per_sample) {
            *s += factor * v;
        }
    }

    /// Carries everything back to the parameters: for each of `count` parameters, its derivative per sample.
    pub fn pull_back(mut self, count: usize, samples: usize) -> Vec<Vec<f64>> {
        let mut gradients = vec![vec![0.0; samples]; count];
        // Parents are older than their results, so the newest entry has received all it will get.
        while let Some((_, (node, adjoint))) = self.0.pop_last() {
            for (parent, partial) in &node.parents {
                self.add_node(parent, &adjoint, *partial);
            }
            if let Some(index) = node.parameter {
                gradients[index].iter_mut().zip(&adjoint).for_each(|(g, a)| *g += a);
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
            let y = (a * a).ln_1p().sqrt() - b.ln() + (a - 3.0 * b).abs() + b.sigmoid() / a.recip();
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
    fn constants_record_nothing() {
        assert!(!(Coeff::from(1.0) + 2.0).exp().is_recorded());
        assert!((Coeff::parameter(1.0, 0) * 0.0).is_recorded());
    }
}
