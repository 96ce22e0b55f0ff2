//! All parameters, losses and gradients of a run, for comparison with other implementations.

use crate::Shown;
use crate::training::{Iteration, Training};
use dyweight_core::error::{Error, Result};
use dyweight_files::{StoredTensor, TensorFile};
use std::path::Path;

/// A record of every iteration.
#[derive(Default)]
pub struct Trace {
    losses: Vec<f64>,
    rates: Vec<f64>,
    /// Before the first iteration, and after each.
    params: Vec<Vec<Shown>>,
    gradients: Vec<Vec<Shown>>,
    /// Records of an iteration, where there is one for every solver step; the start is then left out.
    steps: Option<usize>,
}

impl Trace {
    /// Notes the parameters before the first iteration.
    pub fn start(run: &Training) -> Self {
        Self { params: vec![run.learnable().shown(&run.params)], ..Self::default() }
    }

    /// Notes an iteration and the parameters after it.
    pub fn add(&mut self, iteration: &Iteration, run: &Training) {
        self.rates.push(iteration.rate);
        if !iteration.steps.is_empty() {
            if self.steps.is_none() {
                self.params.clear();
            }
            self.steps = Some(iteration.steps.len());
            for (loss, params) in &iteration.steps {
                self.losses.push(*loss);
                self.params.push(run.learnable().shown(params));
            }
            return;
        }
        self.losses.push(iteration.loss);
        self.gradients.push(run.learnable().shown_gradient(&iteration.gradient));
        self.params.push(run.learnable().shown(&run.params));
    }

    /// Writes it as safetensors: each block under its name, its gradients under `grad_` and the name, `loss` and `lr`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = TensorFile::default();
        let mut put = |name: String, shape: &[usize], values: &[f64]| -> Result<()> {
            let stored = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(path, p))?;
            file.tensors.insert(name, stored);
            Ok(())
        };
        let leading = |records: usize| self.steps.map_or(vec![records], |steps| vec![records / steps, steps]);
        for (prefix, list) in [("", &self.params), ("grad_", &self.gradients)] {
            let Some(first) = list.first() else { continue };
            for (k, Shown { name, shape, .. }) in first.iter().enumerate() {
                let values: Vec<f64> = list.iter().flat_map(|shown| shown[k].values.iter().copied()).collect();
                put(format!("{prefix}{name}"), &[&leading(list.len())[..], &shape[..]].concat(), &values)?;
            }
        }
        put("loss".into(), &leading(self.losses.len()), &self.losses)?;
        put("lr".into(), &[self.rates.len()], &self.rates)?;
        file.write(path)
    }
}
