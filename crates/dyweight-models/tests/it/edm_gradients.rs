//! Gradients in state, level and shift of the embedding against finite differences, for every option of the networks.
//!
//! The engine computes in f32, so single entries drown in rounding; directional derivatives do not. Along the
//! gradient's own direction the derivative is its norm, the largest there is; along a random one it must be the inner
//! product.

use crate::edm_common::{batch, every_kind, random};
use dyweight_core::Tensor;
use dyweight_core::denoiser::{Condition, Differentiable, Levels, Model};
use dyweight_core::tensor::dot;

const SIGMAS: [f64; 2] = [0.4, 3.0];

struct Case<'m> {
    name: &'m str,
    model: &'m dyn Differentiable,
    x: Tensor,
    cotangent: Tensor,
}

impl Case<'_> {
    fn loss(&self, x: &Tensor, sigmas: &[f64]) -> f64 {
        dot(self.model.predict(x, &Levels::Each(sigmas.to_vec())).unwrap().data(), self.cotangent.data())
    }

    fn check_x(&self, gradient: &Tensor) {
        let norm = dot(gradient.data(), gradient.data()).sqrt();
        let noise = batch(9, self.x.shape());
        let length = dot(noise.data(), noise.data()).sqrt();
        for direction in [gradient.map(|v| v / norm), noise.map(|v| v / length)] {
            let at = |h: f64| {
                let mut x = self.x.clone();
                x.data_mut().iter_mut().zip(direction.data()).for_each(|(x, d)| *x += h * d);
                self.loss(&x, &SIGMAS)
            };
            let h = 0.02;
            let difference = (at(h) - at(-h)) / (2.0 * h);
            let expected = dot(gradient.data(), direction.data());
            assert!((difference - expected).abs() < 4e-3 * norm, "{}: {difference} {expected} of {norm}", self.name);
        }
    }

    fn check_sigma(&self, gradient: &[f64]) {
        let norm = gradient.iter().fold(0f64, |m, g| m.max(g.abs()));
        for i in 0..SIGMAS.len() {
            // VP tells the network a time up to 999, so its embedding turns a thousand times faster.
            let h = if self.name == "VP" { 2e-4 } else { 2e-3 } * SIGMAS[i];
            let at = |h: f64| {
                let mut sigmas = SIGMAS;
                sigmas[i] += h;
                self.loss(&self.x, &sigmas)
            };
            // Fourth order: high frequencies of the embedding need a small step, f32 a large one.
            let difference = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
            assert!((difference - gradient[i]).abs() < 1e-2 * norm, "{}: {difference} {gradient:?}", self.name);
        }
    }
}

#[test]
fn gradients_of_every_kind_of_network() {
    for (name, differing) in every_kind() {
        let model = random(differing);
        let [c, h, w] = model.shape();
        let labels = if model.classes() > 0 { vec![0, model.classes() - 1] } else { Vec::new() };
        let bound = model.denoiser(&Condition::classes(labels)).unwrap();
        let case = Case { name, model: &*bound, x: batch(3, [2, c, h, w]), cotangent: batch(4, [2, c, h, w]) };
        let (value, pullback) = case.model.with_pullback(&case.x, &Levels::Each(SIGMAS.to_vec())).unwrap();
        assert_eq!(value, case.model.predict(&case.x, &Levels::Each(SIGMAS.to_vec())).unwrap(), "{name}");
        let (to_x, to_sigma) = pullback(&case.cotangent).unwrap();
        case.check_x(&to_x);
        assert_eq!(pullback(&case.cotangent).unwrap(), (to_x, to_sigma.clone()), "{name}, asked again");
        // iDDPM's network is told an index: its derivative in the level is not that of the jumps.
        if !name.starts_with("iDDPM") {
            case.check_sigma(&to_sigma);
        }
    }
}

#[test]
fn gradients_under_guidance() {
    let model = random(serde_json::json!({"label_dim": 3}));
    let condition = Condition::classes([2, 0]).guided(Some(2.5));
    let bound = model.denoiser(&condition).unwrap();
    assert_eq!(bound.info().calls, 2);
    let case = Case { name: "guided", model: &*bound, x: batch(3, [2, 2, 8, 8]), cotangent: batch(4, [2, 2, 8, 8]) };
    let (_, pullback) = bound.with_pullback(&case.x, &Levels::Each(SIGMAS.to_vec())).unwrap();
    let (to_x, to_sigma) = pullback(&case.cotangent).unwrap();
    case.check_x(&to_x);
    case.check_sigma(&to_sigma);
}

/// Levels whose embedding has a shift for each number and each sample.
fn shifted(shift: &[Vec<f64>]) -> Levels {
    let by = shift.iter().map(|by| Levels::Each(by.clone())).collect();
    Levels::Shifted { level: Box::new(Levels::Each(SIGMAS.to_vec())), by }
}

fn check_shift(name: &str, model: &dyn Differentiable, shape: [usize; 4], numbers: usize) {
    let (x, cotangent) = (batch(3, shape), batch(4, shape));
    let rows = |seed: u64, size: f64| -> Vec<Vec<f64>> {
        batch(seed, [numbers, 2, 1, 1]).data().chunks(2).map(|pair| pair.iter().map(|v| size * v).collect()).collect()
    };
    // Zeros change no bit.
    let plain = model.predict(&x, &Levels::Each(SIGMAS.to_vec())).unwrap();
    assert_eq!(model.predict(&x, &shifted(&rows(5, 0.0))).unwrap(), plain, "{name}");
    // Away from them, in the direction of the gradient and in one of no meaning.
    let at = rows(5, 0.3);
    let (value, pullback) = model.with_pullback(&x, &shifted(&at)).unwrap();
    assert_eq!(value, model.predict(&x, &shifted(&at)).unwrap(), "{name}");
    assert!(value != plain, "{name}");
    let (_, told) = pullback(&cotangent).unwrap();
    assert_eq!(told.len(), 2 + 2 * numbers, "{name}");
    let gradient: Vec<Vec<f64>> = told[2..].chunks(2).map(<[f64]>::to_vec).collect();
    let inner = |a: &[Vec<f64>], b: &[Vec<f64>]| dot(&a.concat(), &b.concat());
    let norm = inner(&gradient, &gradient).sqrt();
    // Of each sample alone too: the other's numbers must not be in it.
    let alone = |i: usize| {
        let only = |pair: &Vec<f64>| (0..2).map(|k| if k == i { pair[k] } else { 0.0 }).collect::<Vec<f64>>();
        gradient.iter().map(only).collect::<Vec<_>>()
    };
    for direction in [gradient.clone(), alone(0), alone(1), rows(9, 1.0)] {
        let length = inner(&direction, &direction).sqrt();
        let loss = |h: f64| {
            let moved = |(at, by): (&Vec<f64>, &Vec<f64>)| (0..2).map(|k| at[k] + h * by[k] / length).collect();
            let levels = shifted(&at.iter().zip(&direction).map(moved).collect::<Vec<_>>());
            dot(model.predict(&x, &levels).unwrap().data(), cotangent.data())
        };
        let h = 0.01;
        let difference = (8.0 * (loss(h) - loss(-h)) - (loss(2.0 * h) - loss(-2.0 * h))) / (12.0 * h);
        let expected = inner(&gradient, &direction) / length;
        assert!((difference - expected).abs() < 4e-3 * norm, "{name}: {difference} {expected} of {norm}");
    }
    let refused = model.info().embedding.require(numbers + 1).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("{} numbers", numbers + 1)) && refused.contains(&numbers.to_string()),
        "{refused}"
    );
    assert!(model.predict(&x, &shifted(&rows(5, 0.0)[1..])).is_err(), "{name}");
}

#[test]
fn gradients_in_a_shift_of_the_embedding() {
    for (name, differing) in every_kind() {
        let model = random(differing);
        let ([c, h, w], numbers) = (model.shape(), model.embedding_len().unwrap());
        let labels = if model.classes() > 0 { vec![0, model.classes() - 1] } else { Vec::new() };
        let bound = model.denoiser(&Condition::classes(labels)).unwrap();
        check_shift(name, &*bound, [2, c, h, w], numbers);
    }
    let model = random(serde_json::json!({"label_dim": 3}));
    let bound = model.denoiser(&Condition::classes([2, 0]).guided(Some(2.5))).unwrap();
    check_shift("guided", &*bound, [2, 2, 8, 8], model.embedding_len().unwrap());
}
