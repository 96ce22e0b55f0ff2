//! Several budgets learned by the same numbers: what is lowered is the geometric mean of their losses.
//!
//! ```text
//! G = (L₁ ⋯ L_n)^{1/n}      ∇G = G/n · Σ_b ∇L_b/L_b
//! ```
//!
//! The losses of 3 and of 12 calls are orders of magnitude apart. In the geometric mean a tenth off one is worth as much as a tenth off any other,
//! now and at every later iteration, and there is no scale to be chosen. Of one budget G is its loss.

use crate::student::Gradient;

/// Geometric mean; of one number the number itself, to the last bit.
pub(crate) fn geometric_mean(losses: &[f64]) -> f64 {
    match losses {
        [one] => *one,
        _ => (losses.iter().map(|l| l.ln()).sum::<f64>() / losses.len() as f64).exp(),
    }
}

/// The loss of a batch over all budgets, and its gradient.
pub(crate) fn together(batches: &[Gradient]) -> (f64, Vec<f64>) {
    if let [one] = batches {
        return (one.loss(), one.gradient());
    }
    let losses: Vec<f64> = batches.iter().map(Gradient::loss).collect();
    let mean = geometric_mean(&losses);
    let mut gradient = vec![0.0; batches.first().map_or(0, |b| b.gradients.len())];
    for (batch, loss) in batches.iter().zip(&losses) {
        // A budget without any loss has nothing left to lower.
        let factor = if *loss > 0.0 { mean / (losses.len() as f64 * loss) } else { 0.0 };
        gradient.iter_mut().zip(batch.gradient()).for_each(|(all, own)| *all += factor * own);
    }
    (mean, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(losses: [f64; 2], gradients: [[f64; 2]; 2]) -> Gradient {
        let gradients = gradients.map(|g| g.to_vec()).to_vec();
        Gradient { losses: losses.to_vec(), gradients, noise: Vec::new() }
    }

    /// L₁ = a²b, L₂ = b³ at (a, b): the gradient of √(L₁L₂) = a·b².
    #[test]
    fn the_gradient_is_that_of_the_geometric_mean() {
        let (a, b) = (1.3f64, 0.4f64);
        let first = batch([a * a * b; 2], [[2.0 * a * b; 2], [a * a; 2]]);
        let second = batch([b.powi(3); 2], [[0.0; 2], [3.0 * b * b; 2]]);
        let (loss, gradient) = together(&[first, second]);
        assert!((loss - a * b * b).abs() < 1e-15);
        assert!((gradient[0] - b * b).abs() < 1e-15 && (gradient[1] - 2.0 * a * b).abs() < 1e-15);
    }

    #[test]
    fn one_budget_is_itself_and_a_loss_of_zero_harms_no_other() {
        let one = batch([0.1, 0.3], [[1.0, 2.0], [0.0, 5.0]]);
        assert_eq!(together(std::slice::from_ref(&one)), (one.loss(), one.gradient()));
        let none = batch([0.0; 2], [[0.0; 2]; 2]);
        assert!(together(&[one, none]).1.iter().all(|g| g.is_finite()));
    }
}
