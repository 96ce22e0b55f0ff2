//! Second-order descent: the Gauss–Newton matrix of the loss, sampled with random signs, and the step it gives.
//!
//! ```text
//! ℓ = |x(p) − y|²/D           ∇²ℓ ≈ H = (2/D)·JᵀJ,  J = ∂x/∂p
//!                                                                x the end of a run, p the parameters that are learned
//! v = √(2/D)·Jᵀξ,  ξᵢ = ±1    E[v vᵀ] = H                                 one reverse sweep more for each pair,
//!                  whatever the solver
//! H ← (1−γ)H + γ·mean of v vᵀ over a batch,   γ = max(1/t, 1/M)           t batches so far
//! Δ = (H + λ·diag H)⁻¹g,      λ = λ₀ + ν·N/m
//!                                                   N parameters, m samples that H remembers: at first it knows little
//! p ← p − η·c·Δ               c ≤ 1: ½Δᵀ(H + λ·diag H)Δ, by how much the samples move in the mean square, is at most
//!     the loss
//! ```
//!
//! Why: the slopes of a window are nearly parallel. The sum of their weights moves a sample far, differences of them
//! hardly, and a rule that moves every number at the same rate is held back by the sum. This step is the same whatever
//! the coordinates (but for λ). The matrix is Schraudolph's (2002), its estimate Hutchinson's (1990), the damping
//! Marquardt's (1963).

use dyweight_core::tensor::dot;

/// λ₀.
const DAMPING: f64 = 1e-3;
/// ν.
const FEW: f64 = 0.3;
/// M, in batches.
const MEMORY: u64 = 100;
/// More parameters than this take longer to solve for than to learn.
pub const MOST_NUMBERS: usize = 2048;

/// What second-order descent knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curvature {
    /// H, row by row.
    pub matrix: Vec<f64>,
    /// Batches that went into it.
    pub batches: u64,
}

impl Curvature {
    /// Nothing is known yet.
    pub fn new(params: usize) -> Self {
        Self { matrix: vec![0.0; params * params], batches: 0 }
    }

    /// Takes in v of a batch, `[number][sample]`.
    pub fn add(&mut self, probes: &[Vec<f64>]) {
        self.batches += 1;
        let gain = 1.0 / self.remembered();
        let samples = probes.first().map_or(1, Vec::len) as f64;
        for (row, a) in self.matrix.chunks_mut(probes.len().max(1)).zip(probes) {
            let products = probes.iter().map(|b| dot(a, b) / samples);
            row.iter_mut().zip(products).for_each(|(h, product)| *h += gain * (product - *h));
        }
    }

    /// How many batches H is the mean of.
    fn remembered(&self) -> f64 {
        self.batches.min(MEMORY) as f64
    }

    /// c·Δ for the parameters at some places, whose gradient this is, for batches of so many samples.
    pub fn step(&self, places: &[usize], gradient: &[f64], (loss, samples): (f64, usize)) -> Vec<f64> {
        let (all, n) = (self.matrix.len().isqrt(), places.len());
        let damping = DAMPING + FEW * n as f64 / (samples as f64 * self.remembered());
        let mut damped: Vec<f64> =
            places.iter().flat_map(|i| places.iter().map(move |j| self.matrix[i * all + j])).collect();
        // A number that moves nothing has no curvature, and no gradient either: any bound keeps it where it is.
        let mean = (0..n).map(|i| damped[i * n + i]).sum::<f64>() / n.max(1) as f64;
        for i in 0..n {
            let own = &mut damped[i * n + i];
            *own += damping * *own + 1e-9 * mean + f64::MIN_POSITIVE;
        }
        // ½Δᵀ(H + λ·diag H)Δ.
        let mut step = solve(damped, gradient);
        let moved = 0.5 * dot(&step, gradient);
        let scale = if moved > loss { (loss / moved).sqrt() } else { 1.0 };
        step.iter_mut().for_each(|s| *s *= scale);
        step
    }
}

/// A⁻¹b of a positive definite matrix, by Cholesky's factor.
pub(crate) fn solve(mut a: Vec<f64>, b: &[f64]) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let (above, own) = a.split_at_mut(i * n);
        for (j, row) in above.chunks(n).enumerate() {
            own[j] = (own[j] - dot(&own[..j], &row[..j])) / row[j];
        }
        // Rounding can leave nothing of what was positive.
        own[i] = (own[i] - dot(&own[..i], &own[..i])).max(f64::MIN_POSITIVE).sqrt();
    }
    let mut x = b.to_vec();
    for (i, row) in a.chunks(n.max(1)).enumerate() {
        x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
    }
    for (i, row) in a.chunks(n.max(1)).enumerate().rev() {
        x[i] /= row[i];
        let (before, own) = x.split_at_mut(i);
        before.iter_mut().zip(row).for_each(|(x, l)| *x -= l * own[0]);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loss, Optimiser, TrainConfig, TrainSpec};
    use dyweight_core::denoiser::Model;
    use dyweight_core::mixture::Mixture;
    use dyweight_core::noise::Stream;
    use dyweight_core::tape::Memory;
    use dyweight_core::tensor::Tensor;
    use dyweight_solvers::spec::{Budget, ScheduleSpec};
    use std::sync::Arc;

    /// A v for each sample whose second moments are those of a matrix: J of a linear map, with one sign per row.
    fn probes(jacobian: &[Vec<f64>], samples: usize, signs: &mut Stream) -> Vec<Vec<f64>> {
        let (rows, n) = (jacobian.len() as f64, jacobian[0].len());
        let mut found = vec![Vec::new(); n];
        for _ in 0..samples {
            let xi: Vec<f64> = jacobian.iter().map(|_| if signs.bits() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
            for (k, v) in found.iter_mut().enumerate() {
                v.push((2.0 / rows).sqrt() * jacobian.iter().zip(&xi).map(|(row, s)| row[k] * s).sum::<f64>());
            }
        }
        found
    }

    #[test]
    fn equations_are_solved() {
        let mut z = Stream::new(3);
        let b: Vec<Vec<f64>> = (0..12).map(|_| z.normals(9)).collect();
        let a: Vec<f64> = (0..81).map(|at| b.iter().map(|row| row[at / 9] * row[at % 9]).sum()).collect();
        let x = z.normals(9);
        let product: Vec<f64> = a.chunks(9).map(|row| dot(row, &x)).collect();
        assert!(solve(a, &product).iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-10));
        assert!(solve(Vec::new(), &[]).is_empty());
    }

    /// Parallel directions, a thousand times longer in their sum than in their difference: one step goes to the least
    /// squares' solution.
    #[test]
    fn a_step_does_not_mind_bad_coordinates() {
        let jacobian: Vec<Vec<f64>> = (0..64)
            .map(|i| {
                let (a, b) = ((f64::from(i) * 0.7).sin(), (f64::from(i) * 1.9).cos());
                vec![a + 1e-3 * b, a - 1e-3 * b]
            })
            .collect();
        let mut signs = Stream::new(1);
        let mut curvature = Curvature::new(2);
        (0..200).for_each(|_| curvature.add(&probes(&jacobian, 16, &mut signs)));
        let h = |i: usize, j: usize| jacobian.iter().map(|row| row[i] * row[j]).sum::<f64>() / 32.0;
        assert!((curvature.matrix[0] / h(0, 0) - 1.0).abs() < 0.1, "{} {}", curvature.matrix[0], h(0, 0));
        // The gradient of a residual J·Δ.
        let wanted = [0.3, -0.2];
        let gradient = [0, 1].map(|i| h(i, 0) * wanted[0] + h(i, 1) * wanted[1]);
        let exact = Curvature { matrix: vec![h(0, 0), h(0, 1), h(1, 0), h(1, 1)], batches: 1_000_000 };
        let step = exact.step(&[0, 1], &gradient, (1e9, 1_000_000));
        // The sum is found at once, the difference, to which the damping is not small, in part and in the right
        // direction.
        assert!((step[0] + step[1] - 0.1).abs() < 1e-3, "{step:?}");
        assert!(step[0] > step[1], "{step:?}");
    }

    #[test]
    fn samples_move_no_further_than_the_loss() {
        let curvature = Curvature { matrix: vec![2.0], batches: 1_000_000 };
        let free = curvature.step(&[0], &[4.0], (1e9, 1_000_000));
        assert!((free[0] - 2.0 / 1.001).abs() < 1e-6);
        // ½·2·Δ² = 0.25.
        let bound = curvature.step(&[0], &[4.0], (0.25, 1_000_000));
        assert!((bound[0] - 0.5).abs() < 1e-3);
    }

    /// v of a run of a solver is √(2/D)·∂⟨ξ, x⟩/∂p, whatever it weighs.
    #[test]
    fn probes_of_a_run_agree_with_differences() {
        let model = Mixture::spiral().shaped([1, 1, 2]).unwrap();
        let mut spec = TrainSpec { memory: Some(Memory::Keep), ..TrainSpec::default() };
        spec.dyweight.span = Some("state,bands:1,operator:3".parse().unwrap());
        let plan = crate::plan::plan(&spec, &model, &ScheduleSpec::default(), Budget::Nfe(3), Loss::L2).unwrap();
        let (mut z, mut params) = (Stream::new(9), plan.start.clone());
        params.iter_mut().for_each(|v| *v += 0.01 * z.normal());
        let noise = Tensor::new([2, 1, 1, 2], z.normals(4)).unwrap();
        let target = Tensor::zeros([2, 1, 1, 2]);
        let xi = [1.0, -1.0, -1.0, -1.0];
        let signs = |_: usize, [c, h, w]: [usize; 3]| Tensor::new([2, c, h, w], xi.to_vec());
        let denoiser = model.bind(&Default::default()).unwrap();
        let solver = (&*plan.learnable, &params[..]);
        let found = plan.student.gradient(&*denoiser, solver, (&noise, false), &[target], Some(&signs)).unwrap();
        assert_eq!(found.probes.len(), params.len());
        // ⟨ξ, x⟩ is a difference of squared distances: |x + ξ|² − |x − ξ|² = 4⟨ξ, x⟩.
        let shown = |params: &[f64], sample: usize| {
            let losses = |sign: f64| {
                let target = Tensor::new([2, 1, 1, 2], xi.iter().map(|v| sign * v).collect()).unwrap();
                plan.student.losses(&*denoiser, (&*plan.learnable, params), &noise, &[target]).unwrap()[sample]
            };
            2.0 * (losses(-1.0) - losses(1.0)) / 4.0
        };
        for k in 0..params.len() {
            for sample in 0..2 {
                let at = |h: f64| {
                    let mut moved = params.clone();
                    moved[k] += h;
                    shown(&moved, sample)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                let v = found.probes[k][sample];
                assert!((v - difference).abs() < 1e-5 * (1.0 + v.abs()), "{k}, {sample}: {v} {difference}");
            }
        }
    }

    /// With as many iterations it ends closer than Adam, whatever is learned.
    #[test]
    fn second_order_descent_learns_more_from_as_many_pairs() {
        let model: Arc<dyn Model> = Arc::new(Mixture::spiral().shaped([1, 1, 2]).unwrap());
        for span in ["none", "state,bands:1,operator:3"] {
            let loss = |optimiser: Optimiser| {
                let (iters, batch, validation) = (Some(60), Some(64), Some(256));
                let mut spec =
                    TrainSpec { optimiser: Some(optimiser), iters, batch, validation, ..TrainSpec::default() };
                spec.dyweight.span = Some(span.parse().unwrap());
                let config = TrainConfig::of(&model, Budget::Nfe(3), &spec).unwrap();
                let file = config.train(&mut |_, _| Ok(())).unwrap().file;
                file.training["validation_loss"].as_f64().unwrap()
            };
            let (first, second) = (loss(Optimiser::Adam), loss(Optimiser::Newton));
            assert!(second < 0.8 * first, "{span}: {second} against {first}");
        }
    }

    #[test]
    fn a_number_without_effect_stays() {
        let curvature = Curvature { matrix: vec![2.0, 0.0, 0.0, 0.0], batches: 4 };
        let step = curvature.step(&[0, 1], &[1.0, 0.0], (1.0, 16));
        assert!(step[0] > 0.0 && step[1] == 0.0);
        assert_eq!(curvature.step(&[1], &[0.0], (1.0, 16)), [0.0]);
    }
}
