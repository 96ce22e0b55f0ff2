//! Gauss–Newton without gradients as a rule of descent of the one trainer: its solves are shared by threads and
//! processes like everything else.

use super::{Event, Iteration, Training, Validation};
use crate::gauss_newton::{self, GaussNewton, PerPair, Residuals, Solves, Split, normal};
use crate::targets::Targets;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_sample::{in_parts, unit};
use std::ops::Range;

/// Numbers that residuals of a batch may take in memory.
const MOST_NUMBERS: usize = 32 << 20;

/// Ends of the student's solves against the teacher's.
pub(crate) struct Ends<'t> {
    run: &'t Training,
    /// Training pairs that make the equations and those after them that judge, where validation pairs have no say.
    halves: Option<(usize, usize)>,
}

impl Ends<'_> {
    /// Where the pairs of a split are.
    fn of(&self, split: Split, pairs: Range<usize>) -> (&Targets, Range<usize>) {
        match (split, self.halves) {
            (Split::Training, _) => (&self.run.training, pairs),
            (Split::Validation, None) => (&self.run.validation, pairs),
            (Split::Validation, Some((first, _))) => (&self.run.training, pairs.start + first..pairs.end + first),
        }
    }

    /// Pairs of one network call, so few that their residuals under all candidates stay in memory.
    fn batch(&self, candidates: usize) -> usize {
        let params = self.run.model.shape().iter().product::<usize>() * candidates;
        self.run.recipe.micro_batch.min(MOST_NUMBERS / params.max(1)).max(1)
    }

    /// What `of` makes of the residuals of some pairs, in the order of pairs, in every process.
    fn scatter_gather<T: Send + dyweight_sample::comm::Wire>(
        &self,
        candidates: &[Vec<f64>],
        (split, pairs): (Split, Range<usize>),
        of: impl Fn(Residuals) -> Vec<T> + Sync,
    ) -> Result<Vec<T>> {
        let ((targets, pairs), model) = (self.of(split, pairs), &*self.run.model);
        targets.prepare(pairs.clone())?;
        let batch = self.batch(candidates.len());
        let part = |range: Range<usize>| {
            let each = candidates.iter().map(|params| self.of_part(params, targets, range.clone()));
            Ok(of(each.collect::<Result<Residuals>>()?))
        };
        let share = |mine| Ok(in_parts(model, mine, batch, part)?.into_iter().flatten().collect::<Vec<T>>());
        Ok(self.run.comm().scatter_gather(pairs, unit(model, batch), share)?.into_iter().flatten().collect())
    }

    /// Residuals of a part. Where one pair diverges each is solved alone, so that the others do not depend on whom they
    /// are solved with.
    fn of_part(&self, params: &[f64], targets: &Targets, pairs: Range<usize>) -> Result<Vec<Option<Vec<f64>>>> {
        match self.solve(params, targets, pairs.clone()) {
            Ok(found) => Ok(found.into_iter().map(Some).collect()),
            Err(Error::Diverged { .. } | Error::BadValue { .. }) if pairs.len() == 1 => Ok(vec![None]),
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => {
                let alone = pairs.map(|pair| self.of_part(params, targets, pair..pair + 1));
                Ok(alone.collect::<Result<Vec<_>>>()?.concat())
            }
            Err(error) => Err(error),
        }
    }

    fn solve(&self, params: &[f64], targets: &Targets, pairs: Range<usize>) -> Result<Vec<Vec<f64>>> {
        let noise: Tensor = targets.pairs().latents(pairs.clone())?;
        let model = targets.denoiser(&*self.run.model, pairs.clone())?;
        self.run.student.residuals(&model, (&*self.run.learnable, params), &noise, &targets.of(pairs)?)
    }
}

impl Solves for Ends<'_> {
    fn pairs(&self, split: Split) -> usize {
        match (split, self.halves) {
            (Split::Training, Some((fitted, _))) => fitted,
            (Split::Validation, Some((_, judged))) => judged,
            (Split::Training, None) => self.run.recipe.pairs,
            (Split::Validation, None) if self.run.recipe.validate_every.is_none() => 0,
            (Split::Validation, None) => self.run.recipe.validation_pairs,
        }
    }

    /// All at once: batches and memory are looked after here.
    fn together(&self) -> usize {
        usize::MAX
    }

    fn residuals(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Residuals> {
        let by_pair = self.scatter_gather(candidates, (split, pairs), |found| transposed(&found))?;
        Ok(transposed(&by_pair))
    }

    fn losses(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Vec<Vec<f64>>> {
        let of = |found: Residuals| transposed(&gauss_newton::losses(&found));
        let by_pair = self.scatter_gather(candidates, (split, pairs), of)?;
        Ok(transposed(&by_pair))
    }

    fn equations(&mut self, candidates: &[Vec<f64>], pairs: Range<usize>, steps: &[f64]) -> Result<PerPair> {
        self.scatter_gather(candidates, (Split::Training, pairs), |found| normal(&found, steps))
    }
}

fn transposed<T: Clone>(rows: &[Vec<T>]) -> Vec<Vec<T>> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns).map(|k| rows.iter().map(|row| row[k].clone()).collect()).collect()
}

impl Training {
    fn ends(&self) -> Ends<'_> {
        Ends { run: self, halves: None }
    }

    /// What is minimised, on training pairs alone: the first make the equations, the ones after them judge.
    pub(crate) fn on_training_pairs(&self, fitted: usize, judged: usize) -> Ends<'_> {
        Ends { run: self, halves: Some((fitted, judged)) }
    }

    /// Begins Gauss–Newton at the start, with a first validation.
    pub(super) fn begin_gauss_newton(&mut self) -> Result<()> {
        let Some(options) = self.recipe.gauss_newton else { return Ok(()) };
        self.gauss_newton = Some(GaussNewton::new(self.params.clone(), options, &mut self.ends())?);
        Ok(())
    }

    /// One iteration of Gauss–Newton. Of one that is cancelled nothing remains.
    pub(super) fn advance_gauss_newton(&mut self, mut state: GaussNewton) -> Result<Iteration> {
        let found = state.advance(&mut self.ends())?;
        self.iteration += 1;
        self.params.clone_from(&state.best);
        self.gauss_newton = Some(state);
        let event = if found.taken { Event::Best } else { Event::None };
        let validation = self.guard.as_mut().map(|guard| {
            if found.taken {
                guard.judge(&self.params, found.validation);
            }
            Validation { loss: found.validation, event }
        });
        let norm = found.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let gauss_newton::Iteration { index, loss, gradient, lambda, .. } = found;
        Ok(Iteration { index, loss, rate: lambda, gradient, norm, validation, steps: Vec::new() })
    }
}
