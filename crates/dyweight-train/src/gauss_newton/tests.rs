use super::*;
use dyweight_core::noise::Stream;

/// Samples of a model with four parameters, of which the last moves nothing.
struct Problem {
    training: Vec<Vec<f64>>,
    validation: Vec<Vec<f64>>,
    /// A parameter beyond this diverges.
    wall: f64,
    together: usize,
    solved: usize,
}

const WANTED: [f64; 4] = [0.7, 1.3, -0.4, 5.0];
const LEN: usize = 24;

impl Problem {
    fn new(training: usize, validation: usize) -> Self {
        let inputs = |count: usize, seed: u64| {
            let mut z = Stream::new(seed);
            (0..count).map(|_| z.normals(LEN)).collect()
        };
        Self {
            training: inputs(training, 1),
            validation: inputs(validation, 2),
            wall: f64::INFINITY,
            together: 16,
            solved: 0,
        }
    }

    /// Nearly parallel in the first two parameters, as slopes of a window are, and bent.
    fn end(p: &[f64], x: &[f64]) -> Vec<f64> {
        let of = |(i, x): (usize, &f64)| {
            let other = x + 0.05 * (i as f64).sin();
            p[0] * x + p[1] * other + (p[2] * x).tanh() * 0.3 + 0.1 * p[0] * p[2]
        };
        x.iter().enumerate().map(of).collect()
    }
}

impl Solves for Problem {
    fn pairs(&self, split: Split) -> usize {
        if split == Split::Training { self.training.len() } else { self.validation.len() }
    }

    fn residuals(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Residuals> {
        let inputs = if split == Split::Training { &self.training[pairs] } else { &self.validation[pairs] };
        self.solved += candidates.len() * inputs.len();
        let one = |p: &Vec<f64>, x: &Vec<f64>| {
            let residual = Self::end(p, x).iter().zip(Self::end(&WANTED, x)).map(|(a, b)| a - b).collect();
            p.iter().all(|v| v.abs() < self.wall).then_some(residual)
        };
        Ok(candidates.iter().map(|p| inputs.iter().map(|x| one(p, x)).collect()).collect())
    }

    fn together(&self) -> usize {
        self.together
    }
}

/// The same with noise of some size in what is asked for.
struct Noise(Problem, f64);

impl Solves for Noise {
    fn pairs(&self, split: Split) -> usize {
        self.0.pairs(split)
    }

    fn residuals(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Residuals> {
        let seed = if split == Split::Training { 10 } else { 1000 };
        let noise: Vec<Vec<f64>> = pairs.clone().map(|i| Stream::new(seed + i as u64).normals(LEN)).collect();
        let mut found = self.0.residuals(candidates, split, pairs)?;
        let all = found.iter_mut().flat_map(|of_one| of_one.iter_mut().zip(&noise));
        all.for_each(|(r, z)| r.iter_mut().flatten().zip(z).for_each(|(r, z)| *r += self.1 * z));
        Ok(found)
    }
}

fn run(problem: &mut dyn Solves, start: &[f64], options: Options) -> GaussNewton {
    let mut state = GaussNewton::new(start.to_vec(), options, problem).unwrap();
    while !state.is_finished() {
        state.advance(problem).unwrap();
    }
    state
}

#[test]
fn parameters_are_found_and_those_without_effect_stay() {
    let found = run(&mut Problem::new(4, 4), &[1.0, 1.0, 0.0, 3.0], Options::default());
    assert!(found.best_validation < 1e-8 * found.initial_validation, "{found:?}");
    assert!(found.best.iter().zip(WANTED).take(3).all(|(a, b)| (a - b).abs() < 1e-3), "{:?}", found.best);
    assert_eq!(found.best[3], 3.0);
}

/// Without damping the second parameter would go to 1; as weak as it is, it stays close.
#[test]
fn what_hardly_moves_a_sample_is_not_moved_far() {
    let equations = Equations { loss: 1.0, gradient: vec![-1.0, -1e-6], matrix: vec![1.0, 0.0, 0.0, 1e-6] };
    let (free, damped) = (equations.step(0.0), equations.step(0.1));
    assert!((free[1] - 1.0).abs() < 1e-2 && (free[0] - 1.0).abs() < 1e-6, "{free:?}");
    assert!(damped[1] < 0.01 && (damped[0] - 1.0 / 1.1).abs() < 1e-6, "{damped:?}");
}

/// Neither how many pairs are asked for at once nor an interruption changes a bit.
#[test]
fn bits_depend_on_neither_batches_nor_interruptions() {
    let start = [1.0, 1.0, 0.0, 3.0];
    let whole = run(&mut Problem::new(9, 5), &start, Options::default());
    let mut by_two = Problem { together: 2, ..Problem::new(9, 5) };
    assert_eq!(run(&mut by_two, &start, Options::default()), whole);
    let mut state = GaussNewton::new(start.to_vec(), Options::default(), &mut by_two).unwrap();
    while !state.is_finished() {
        state.advance(&mut by_two).unwrap();
        state = GaussNewton::from_list(&state.to_list(), 4, state.options).unwrap();
    }
    assert_eq!(state, whole);
    let options = Options { iterations: 10, grows: true, ..Options::default() };
    let grown = run(&mut Problem::new(50, 5), &start, options);
    let mut by_two = Problem { together: 2, ..Problem::new(50, 5) };
    let mut state = GaussNewton::new(start.to_vec(), options, &mut by_two).unwrap();
    while !state.is_finished() {
        state.advance(&mut by_two).unwrap();
        state = GaussNewton::from_list(&state.to_list(), 4, state.options).unwrap();
    }
    assert_eq!(state, grown);
    assert!(GaussNewton::from_list(&whole.to_list(), 3, whole.options).is_none());
    assert!(GaussNewton::from_list(&whole.to_list()[1..], 4, whole.options).is_none());
}

#[test]
fn solves_are_counted_as_they_are_made() {
    let options = Options { iterations: 3, patience: 100, ..Options::default() };
    let mut problem = Problem::new(6, 4);
    let state = run(&mut problem, &[1.0, 1.0, 0.0, 3.0], options);
    assert_eq!(state.solves, problem.solved);
    assert_eq!(state.solves, GaussNewton::most_solves(&options, 4, (6, 4)));
    let (mut growing, options) = (Problem::new(50, 4), Options { iterations: 7, grows: true, ..options });
    let state = run(&mut growing, &[1.0, 1.0, 0.0, 3.0], options);
    assert_eq!(state.solves, growing.solved);
    assert_eq!(state.solves, GaussNewton::most_solves(&options, 4, (50, 4)));
    let options = Options { iterations: 3, grows: false, ..options };
    let mut unjudged = Problem::new(6, 0);
    run(&mut unjudged, &[1.0, 1.0, 0.0, 3.0], options);
    assert_eq!(unjudged.solved, GaussNewton::most_solves(&options, 4, (6, 0)));
}

/// What a part of the pairs cannot say, all of them do.
#[test]
fn pairs_are_added_until_they_bring_nothing() {
    let noisy = |pairs: usize, grows: bool| {
        let options = Options { iterations: 10, grows, ..Options::default() };
        let state = run(&mut Noise(Problem::new(pairs, 64), 0.1), &[1.0, 1.0, 0.0, 3.0], options);
        // On noise-free pairs that nothing was chosen on.
        (state.judge_with(&mut Problem::new(0, 400)), state.stage)
    };
    let (few, all, grown) = (noisy(12, false), noisy(48, false), noisy(48, true));
    assert!(grown.0 < 0.6 * few.0 && grown.0 < 1.5 * all.0 && grown.1 == 2, "{few:?} {all:?} {grown:?}");
    // What a quarter of the pairs has learned to the last digit needs no more of them.
    let options = Options { iterations: 20, grows: true, ..Options::default() };
    let found = run(&mut Problem::new(48, 4), &[0.7, 1.3, -0.4, 3.0], options);
    assert!(found.stage == 1 && found.iteration < 20, "{found:?}");
}

/// Whatever diverges, the result is never worse than the start, and there is an end.
#[test]
fn what_diverges_is_left_out() {
    // The solution lies beyond the wall.
    let mut problem = Problem { wall: 1.25, ..Problem::new(4, 4) };
    let found = run(&mut problem, &[1.0, 1.0, 0.0, 0.0], Options::default());
    assert!(found.best_validation < found.initial_validation && found.best.iter().all(|v| v.abs() < 1.25));
    // Nothing but the start can be solved.
    let mut problem = Problem { wall: 1.0 + 1e-12, ..Problem::new(4, 4) };
    let mut state = GaussNewton::new(vec![1.0, 1.0, 0.0, 0.0], Options::default(), &mut problem).unwrap();
    let first = state.advance(&mut problem).unwrap();
    assert!(first.loss.is_nan() && !first.taken && state.best == [1.0, 1.0, 0.0, 0.0]);
    while !state.is_finished() {
        state.advance(&mut problem).unwrap();
    }
    assert_eq!(state.best_validation, state.initial_validation);
}

/// Two pairs of pure noise: learned by heart they end worse on all others, so validation keeps the start, or goes a
/// little way.
#[test]
fn pairs_learned_by_heart_are_not_believed() {
    let judged = |validation: usize| {
        let state = run(&mut Noise(Problem::new(2, validation), 1.0), &[0.7, 1.3, -0.4, 5.0], Options::default());
        let mut fresh = Problem::new(0, 400);
        (state.judge_with(&mut fresh), state)
    };
    let (by_heart, blind) = judged(0);
    let (careful, state) = judged(64);
    assert!(careful < 0.3 * by_heart, "{careful} {by_heart}");
    assert!(state.best_validation <= state.initial_validation && blind.best_validation < blind.initial_validation);
}

impl GaussNewton {
    /// Mean loss of the best parameters on other pairs.
    fn judge_with(&self, solves: &mut Problem) -> f64 {
        self.clone().judge(std::slice::from_ref(&self.best), solves).unwrap()[0]
    }
}
