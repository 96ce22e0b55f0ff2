//! The numbers of a run: how much of what, in which order.

use crate::{Optimiser, Phase, Relaxation, gauss_newton};
use std::ops::Range;

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Pairs per iteration: batch times accumulation rounds.
    pub pairs: usize,
    /// Samples per network call; changes memory, not results.
    pub micro_batch: usize,
    /// What is moved, one phase after the other.
    pub phases: Vec<Phase>,
    /// How many pairs there are, visited again in the same order after the last; none if each is used once.
    pub distinct: Option<usize>,
    /// Lets the noise of a fixed number of pairs move, where the objective is relaxed.
    pub relax: Option<Relaxation>,
    /// Seed of the order in which those are visited.
    pub seed: u64,
    /// Iterations between validations; none is the reference algorithm and nothing else.
    pub validate_every: Option<usize>,
    /// Validation pairs.
    pub validation_pairs: usize,
    /// Validations without improvement after which training stops.
    pub patience: Option<usize>,
    /// Samples whose features make the moments of a distance of all samples at once: others in every iteration, so that
    /// no set of them is learned by heart.
    pub moments: Option<usize>,
    /// Gauss–Newton without gradients, where it is the rule.
    pub gauss_newton: Option<gauss_newton::Options>,
}

impl Recipe {
    /// Iterations of all phases.
    pub fn iterations(&self) -> usize {
        self.phases.iter().map(|p| p.iterations).sum()
    }

    /// True if a group is moved by second-order descent.
    pub(crate) fn is_second_order(&self) -> bool {
        self.phases.iter().flat_map(|phase| &phase.groups).any(|group| group.optimiser == Optimiser::Newton)
    }

    /// What decides how long a step is.
    pub fn step_is(&self) -> &'static str {
        if self.gauss_newton.is_some() { "damping" } else { "rate" }
    }

    /// The pairs of an iteration.
    pub(crate) fn pairs_of(&self, iteration: usize) -> Range<usize> {
        match &self.relax {
            Some(relaxation) => relaxation.batch(iteration, self.pairs, self.seed),
            None => {
                let turn = self.distinct.map_or(iteration, |n| iteration % (n / self.pairs).max(1));
                let first = turn * self.together();
                first..first + self.pairs
            }
        }
    }

    /// Samples of an iteration: its pairs, or those that make the moments, of which the first take derivatives.
    pub(crate) fn together(&self) -> usize {
        self.moments.map_or(self.pairs, |moments| moments.max(self.pairs))
    }

    /// Pairs whose targets a run needs.
    pub(crate) fn pairs_needed(&self) -> usize {
        let all = self.iterations() * self.pairs;
        self.distinct.map_or(all, |distinct| all.min((distinct / self.pairs).max(1) * self.pairs))
    }

    /// The phase of an iteration, and the iteration's number within it.
    pub fn at(&self, iteration: usize) -> (&Phase, usize) {
        let mut rest = iteration;
        for phase in &self.phases {
            if rest < phase.iterations {
                return (phase, rest);
            }
            rest -= phase.iterations;
        }
        let last = &self.phases[self.phases.len() - 1];
        (last, last.iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(distinct: Option<usize>) -> Recipe {
        let phases = vec![Phase { iterations: 7, groups: Vec::new() }];
        let (relax, patience, moments) = (None, None, None);
        let (pairs, micro_batch, validation_pairs) = (4, 4, 1);
        Recipe {
            pairs,
            micro_batch,
            phases,
            distinct,
            relax,
            seed: 0,
            validate_every: None,
            validation_pairs,
            patience,
            moments,
            gauss_newton: None,
        }
    }

    #[test]
    fn pairs_are_visited_again_after_the_last_whole_batch() {
        let visited = |distinct| (0..7).map(|i| recipe(distinct).pairs_of(i).start).collect::<Vec<_>>();
        assert_eq!(visited(None), [0, 4, 8, 12, 16, 20, 24]);
        assert_eq!(visited(Some(12)), [0, 4, 8, 0, 4, 8, 0]);
        assert_eq!(visited(Some(15)), visited(Some(12)));
        let needed = [None, Some(12), Some(15), Some(4), Some(1000)].map(|distinct| recipe(distinct).pairs_needed());
        assert_eq!(needed, [28, 12, 12, 4, 28]);
    }

    /// No sample makes moments twice, and those that take derivatives are among them.
    #[test]
    fn moments_are_of_other_samples_in_every_iteration() {
        for (moments, starts) in [(10, [0, 10, 20]), (3, [0, 4, 8])] {
            let recipe = Recipe { moments: Some(moments), ..recipe(None) };
            let pairs = |i: usize| recipe.pairs_of(i);
            assert_eq!([pairs(0).start, pairs(1).start, pairs(2).start], starts);
            assert!((0..3).all(|i| pairs(i).len() == 4 && recipe.together() >= 4));
        }
    }
}
