//! Gradients in state and level against finite differences, for every option of the networks.
//!
//! The engine computes in f32, so single entries drown in rounding; directional derivatives do not. Along the gradient's
//! own direction the derivative is its norm, the largest there is; along a random one it must be the inner product.

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
    assert_eq!(bound.calls(), 2);
    let case = Case { name: "guided", model: &*bound, x: batch(3, [2, 2, 8, 8]), cotangent: batch(4, [2, 2, 8, 8]) };
    let (_, pullback) = bound.with_pullback(&case.x, &Levels::Each(SIGMAS.to_vec())).unwrap();
    let (to_x, to_sigma) = pullback(&case.cotangent).unwrap();
    case.check_x(&to_x);
    case.check_sigma(&to_sigma);
}
