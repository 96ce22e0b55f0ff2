//! How many pairs an iteration takes: a quarter while the parameters are far away, all in the end.
//!
//! ```text
//! pairs         N/4      N/2    N
//! iterations    n − 4    2      2
//! ```
//!
//! A solve of every pair for every parameter is what an iteration costs. Far from the end few pairs say where to go;
//! near it each pair counts: what 16 pairs have not shown is learned wrong, and one training in three ended half as far
//! again from the teacher. A part that no step of which lowered the validation loss is the last one: more pairs bring
//! nothing.

use super::Options;

/// With fewer pairs no iteration is worth its solves.
const FEWEST: usize = 12;
/// Iterations of every part but the first.
const LATER: usize = 2;

/// Iterations on so many pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub pairs: usize,
    pub iterations: usize,
}

/// The parts of a run on so many pairs.
pub(super) fn stages(options: &Options, pairs: usize) -> Vec<Stage> {
    let whole = Stage { pairs, iterations: options.iterations };
    let parts: Vec<usize> = [4, 2, 1].map(|part| pairs / part).into_iter().filter(|n| *n >= FEWEST).collect();
    // Every part has as many iterations as a later one.
    let kept = parts.len().min(options.iterations / LATER);
    if !options.grows || kept < 2 {
        return vec![whole];
    }
    let first = options.iterations - LATER * (kept - 1);
    let of = |(at, pairs): (usize, &usize)| Stage { pairs: *pairs, iterations: if at == 0 { first } else { LATER } };
    parts[parts.len() - kept..].iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(iterations: usize, pairs: usize) -> Vec<(usize, usize)> {
        let options = Options { iterations, grows: true, ..Options::default() };
        stages(&options, pairs).into_iter().map(|stage| (stage.pairs, stage.iterations)).collect()
    }

    #[test]
    fn pairs_grow_as_far_as_there_are_pairs_and_iterations() {
        assert_eq!(of(10, 48), [(12, 6), (24, 2), (48, 2)]);
        assert_eq!(of(10, 1024), [(256, 6), (512, 2), (1024, 2)]);
        assert_eq!(of(5, 48), [(24, 3), (48, 2)]);
        assert_eq!((of(3, 48), of(10, 16)), (vec![(48, 3)], vec![(16, 10)]));
        assert_eq!(of(10, 30), [(15, 8), (30, 2)]);
        let still = Options { iterations: 10, ..Options::default() };
        assert_eq!(stages(&still, 48), [Stage { pairs: 48, iterations: 10 }]);
    }
}
