//! Gauss–Newton for solves that Python makes: whole runs of a pipeline, of which nothing is known but where they end.

use crate::error::{foreign, raised};
use crate::payload::received;
use crate::processes::processes;
use dyweight_core::error::{Error, Result};
use dyweight_sample::comm::Comm;
use dyweight_train::gauss_newton::{GaussNewton, Options, PerPair, Residuals, Solves, Split, losses, normal};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ops::Range;
use std::sync::Arc;

/// An optimiser between two iterations. `solves` has `pairs(split)` and `residuals(candidates, split, pair)`.
#[pyclass]
pub struct Optimiser {
    state: GaussNewton,
    solves: Py<PyAny>,
    comm: Arc<dyn Comm>,
}

#[pymethods]
impl Optimiser {
    /// Begins at some parameters, or goes on from a `state`.
    #[new]
    #[pyo3(signature = (start, solves, iterations, comm=None, state=None))]
    fn new(
        py: Python<'_>,
        start: Vec<f64>,
        solves: Py<PyAny>,
        iterations: usize,
        comm: Option<&Bound<'_, PyAny>>,
        state: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let options = Options { iterations, ..Options::default() };
        let comm = processes(comm)?;
        let mut asked = Runs::new(py, &solves, comm.clone())?;
        let begun = match state {
            Some(list) => GaussNewton::from_list(&list, start.len(), options).ok_or_else(no_state),
            None => GaussNewton::new(start, options, &mut asked),
        };
        Ok(Self { state: begun.map_err(|e| raised(py, e, None))?, solves, comm })
    }

    /// One iteration: training loss before it, damping, validation loss of its best step, and whether that was taken.
    fn advance(&mut self, py: Python<'_>) -> PyResult<(f64, f64, f64, bool)> {
        let mut asked = Runs::new(py, &self.solves, self.comm.clone())?;
        let index = self.state.iteration;
        let made = self.state.advance(&mut asked);
        let made = made.map_err(|e| raised(py, e, Some(format!("in iteration {index} of training"))))?;
        Ok((made.loss, made.lambda, made.validation, made.taken))
    }

    #[getter]
    fn is_finished(&self) -> bool {
        self.state.is_finished()
    }

    #[getter]
    fn best(&self) -> Vec<f64> {
        self.state.best.clone()
    }

    #[getter]
    fn best_validation(&self) -> f64 {
        self.state.best_validation
    }

    #[getter]
    fn initial_validation(&self) -> f64 {
        self.state.initial_validation
    }

    #[getter]
    fn iteration(&self) -> usize {
        self.state.iteration
    }

    /// Everything it goes on from, for a file.
    #[getter]
    fn state(&self) -> Vec<f64> {
        self.state.to_list()
    }
}

fn no_state() -> Error {
    Error::conflict("the kept state of training has another number of parameters", "remove it, or choose another cache")
}

/// Solves of one pair that a run of so many parameters makes at most.
#[pyfunction]
pub fn most_solves(iterations: usize, parameters: usize, training: usize, validation: usize) -> usize {
    let options = Options { iterations, ..Options::default() };
    GaussNewton::most_solves(&options, parameters, (training, validation))
}

/// The solves of an object of the package. Processes share the pairs.
struct Runs<'r> {
    object: &'r Py<PyAny>,
    comm: Arc<dyn Comm>,
    counts: [usize; 2],
}

fn name(split: Split) -> &'static str {
    match split {
        Split::Training => "training",
        Split::Validation => "validation",
    }
}

impl<'r> Runs<'r> {
    fn new(py: Python<'_>, object: &'r Py<PyAny>, comm: Arc<dyn Comm>) -> PyResult<Self> {
        let count = |split| object.bind(py).call_method1("pairs", (name(split),))?.extract();
        Ok(Self { object, comm, counts: [count(Split::Training)?, count(Split::Validation)?] })
    }

    /// What Python says of one pair under each candidate.
    fn of_pair(&self, candidates: &[Vec<f64>], split: Split, pair: usize) -> Result<Vec<Option<Vec<f64>>>> {
        let ask = |py: Python<'_>| {
            let asked = (candidates.to_vec(), name(split), pair);
            let answer = self.object.bind(py).call_method1("residuals", asked)?;
            let ends = answer.cast::<PyList>()?;
            ends.iter()
                .map(|end| if end.is_none() { Ok(None) } else { received(&end).map(Some) })
                .collect::<PyResult<Vec<_>>>()
        };
        Python::attach(ask).map_err(foreign)
    }

    /// Something of every pair, made by one process each.
    fn shared(
        &self,
        pairs: Range<usize>,
        make: impl Fn(usize) -> Result<Option<Vec<f64>>>,
    ) -> Result<Vec<Option<Vec<f64>>>> {
        let mine = pairs.clone().filter(|pair| pair % self.comm.size() == self.comm.rank());
        let made = self.comm.all_gather(|| mine.map(&make).collect::<Result<Vec<_>>>())?;
        let mut by_rank: Vec<_> = made.into_iter().map(Vec::into_iter).collect();
        Ok(pairs.map(|pair| by_rank[pair % self.comm.size()].next().flatten()).collect())
    }
}

impl Solves for Runs<'_> {
    fn pairs(&self, split: Split) -> usize {
        self.counts[usize::from(split == Split::Validation)]
    }

    fn residuals(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Residuals> {
        let mut all = vec![Vec::new(); candidates.len()];
        for pair in pairs {
            all.iter_mut().zip(self.of_pair(candidates, split, pair)?).for_each(|(ends, end)| ends.push(end));
        }
        Ok(all)
    }

    /// Pairs are looked at one by one: only processes have to wait for each other.
    fn together(&self) -> usize {
        usize::MAX >> 1
    }

    fn losses(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Vec<Vec<f64>>> {
        let of_pair = |pair| {
            let ends = self.of_pair(candidates, split, pair)?;
            let found = losses(&ends.into_iter().map(|end| vec![end]).collect::<Residuals>());
            Ok(Some(found.concat()))
        };
        let by_pair = self.shared(pairs, of_pair)?;
        let of_candidate = |c: usize| by_pair.iter().flatten().map(|losses| losses[c]).collect();
        Ok((0..candidates.len()).map(of_candidate).collect())
    }

    fn equations(&mut self, candidates: &[Vec<f64>], pairs: Range<usize>, steps: &[f64]) -> Result<PerPair> {
        self.shared(pairs, |pair| {
            let ends = self.of_pair(candidates, Split::Training, pair)?;
            let residuals: Residuals = ends.into_iter().map(|end| vec![end]).collect();
            Ok(normal(&residuals, steps).into_iter().next().flatten())
        })
    }
}
