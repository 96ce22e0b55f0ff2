//! The study written plainly: states in the given coordinates, dense products with A, every step stored. Slow, and
//! the judge of the fast path.

use super::adams::{AdamsSweep, CLASSICAL};
use super::optimise::{evaluate, fit};
use super::options::{Coupling, EndLoss, Settings, Startup};
use super::problem::{LinearProblem, Track};
use dyweight_core::noise::Stream;

/// Terminal error vector of the method with these weights, newest slope first.
fn terminal(problem: &LinearProblem, steps: usize, states: usize, weights: &[Vec<f64>]) -> Vec<f64> {
    let h = 1.0 / steps as f64;
    let time = |n: usize| n as f64 * h;
    let field = |n: usize, y: &[f64]| -> Vec<f64> {
        let (truth, slope) = (problem.truth(time(n)), problem.slope(time(n)));
        let d = y.len();
        (0..d).map(|i| slope[i] + (0..d).map(|j| problem.coupling.at(i, j) * (y[j] - truth[j])).sum::<f64>()).collect()
    };
    let mut y = problem.truth(time(states - 1));
    let mut slopes: Vec<Vec<f64>> = (0..states).map(|n| field(n, &problem.truth(time(n)))).collect();
    for (row, n) in weights.iter().zip(states - 1..steps) {
        for (q, w) in row.iter().enumerate() {
            y.iter_mut().zip(&slopes[n - q]).for_each(|(y, f)| *y += h * w * f);
        }
        slopes.push(field(n + 1, &y));
    }
    y.iter().zip(problem.truth(1.0)).map(|(y, t)| y - t).collect()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

fn loss(kind: EndLoss, error: &[f64]) -> f64 {
    match kind {
        EndLoss::Mse => norm(error).powi(2) / error.len() as f64,
        EndLoss::L2 => norm(error),
    }
}

fn classical(order: usize, rows: usize) -> Vec<Vec<f64>> {
    vec![CLASSICAL[order - 1].to_vec(); rows]
}

/// Central differences of the loss in every weight.
fn gradient(problem: &LinearProblem, steps: usize, states: usize, kind: EndLoss, weights: &[Vec<f64>]) -> Vec<f64> {
    let mut gradient = Vec::new();
    for row in 0..weights.len() {
        for q in 0..weights[row].len() {
            let at = |shift: f64| {
                let mut moved = weights.to_vec();
                moved[row][q] += shift;
                loss(kind, &terminal(problem, steps, states, &moved))
            };
            let h = 1e-5;
            gradient.push((at(h) - at(-h)) / (2.0 * h));
        }
    }
    gradient
}

fn wobble(order: usize, rows: usize) -> Vec<Vec<f64>> {
    let mut stream = Stream::new(77);
    classical(order, rows).into_iter().map(|r| r.into_iter().map(|w| w + 0.1 * stream.normal()).collect()).collect()
}

fn fast_gradient<const O: usize>(
    problem: &LinearProblem,
    steps: usize,
    states: usize,
    kind: EndLoss,
) -> (f64, Vec<f64>) {
    let flat: Vec<f64> = wobble(O, steps + 1 - states).concat();
    let rows = flat.as_chunks::<O>().0;
    let track = Track::new(problem, steps);
    let mut sweep = AdamsSweep::new(steps, states, track.blocks);
    let size = sweep.forward(&track, &problem.basis, rows);
    let mut out = vec![[0.0; O]; rows.len()];
    sweep.backward(&track, (kind, size), rows, &mut out);
    (size, out.as_flattened().to_vec())
}

#[test]
fn gradients_agree_with_finite_differences() {
    for (coupling, dims, degree, steps) in [(Coupling::Std, 50, 12, 8), (Coupling::Variance, 7, 5, 6)] {
        let settings = Settings { coupling, dims, ..Settings::default() };
        let problem = LinearProblem::draw(&mut Stream::new(5), &settings, degree).unwrap();
        for (order, kind, startup) in [
            (1, EndLoss::Mse, Startup::Order),
            (2, EndLoss::L2, Startup::Four),
            (3, EndLoss::Mse, Startup::Four),
            (4, EndLoss::L2, Startup::Order),
        ] {
            let states = startup.states(order);
            let (size, fast) = match order {
                1 => fast_gradient::<1>(&problem, steps, states, kind),
                2 => fast_gradient::<2>(&problem, steps, states, kind),
                3 => fast_gradient::<3>(&problem, steps, states, kind),
                _ => fast_gradient::<4>(&problem, steps, states, kind),
            };
            let weights = wobble(order, steps + 1 - states);
            let slow = gradient(&problem, steps, states, kind, &weights);
            let expected = norm(&terminal(&problem, steps, states, &weights));
            assert!((size - expected).abs() < 1e-10 * expected, "{size} {expected}");
            let scale = norm(&slow);
            assert_eq!(fast.len(), slow.len());
            for (f, s) in fast.iter().zip(&slow) {
                assert!((f - s).abs() < 1e-7 * scale, "order {order}: {f} {s}");
            }
        }
    }
}

#[test]
fn the_fast_fit_agrees_with_plain_adam() {
    for (order, loss, startup, coupling) in [
        (1, EndLoss::Mse, Startup::Order, Coupling::Variance),
        (2, EndLoss::L2, Startup::Order, Coupling::Std),
        (4, EndLoss::Mse, Startup::Order, Coupling::Std),
        (3, EndLoss::Mse, Startup::Four, Coupling::Variance),
    ] {
        let settings = Settings { dims: 9, iterations: 60, lr: 1e-2, loss, startup, coupling, ..Settings::default() };
        let problem = LinearProblem::draw(&mut Stream::new(6), &settings, 6).unwrap();
        let (steps, states) = (7, startup.states(order));
        let track = Track::new(&problem, steps);
        let fast = fit(&problem, &track, order, &settings);
        let goal = norm(&problem.truth(1.0));

        let mut weights = classical(order, steps + 1 - states);
        let start = norm(&terminal(&problem, steps, states, &weights)) / goal;
        assert!((fast.standard - start).abs() < 1e-11, "{} {start}", fast.standard);
        let count = weights.len() * order;
        let (mut m, mut v) = (vec![0.0; count], vec![0.0; count]);
        for t in 1..=settings.iterations as i32 {
            let g = gradient(&problem, steps, states, loss, &weights);
            for (i, w) in weights.iter_mut().flatten().enumerate() {
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                let (m, v) = (m[i] / (1.0 - 0.9f64.powi(t)), v[i] / (1.0 - 0.999f64.powi(t)));
                *w -= settings.lr * m / (v.sqrt() + 1e-8);
            }
        }
        let slow = norm(&terminal(&problem, steps, states, &weights)) / goal;
        assert!((fast.optimised - slow).abs() < 1e-5 * start, "order {order}: {} {slow}", fast.optimised);
        assert!(fast.optimised < 0.9 * fast.standard);
        let again = evaluate(&problem, &track, order, &fast.weights);
        assert_eq!(again, fast.optimised);
    }
}

#[test]
fn classical_methods_have_their_order() {
    let settings = Settings::default();
    let problem = LinearProblem::draw(&mut Stream::new(8), &settings, 9).unwrap();
    for order in 1..=4 {
        let error = |steps: usize| super::optimise::evaluate_classical(&problem, &Track::new(&problem, steps), order);
        let observed = (error(160) / error(320)).log2();
        assert!((observed - order as f64).abs() < 0.1, "order {order}: {observed}");
    }
}
