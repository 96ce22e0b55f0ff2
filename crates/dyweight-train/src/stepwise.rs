//! Training step by step: a loss and an update after every solver step, as EPD and AMED are trained.
//!
//! ```text
//! at step i, with the parameters as they are now:  x_{i+1} = step(x_i);   L_i = Σ (x_{i+1} − y_{i+1})²/batch
//!                                                                                                            →  update
//! attached   x_{i+1} goes on with all it came from: L_i reaches every number used so far, at the values it had then
//! detached   x_{i+1} goes on as a constant
//! teacher    the next step starts from y_{i+1}
//! ```
//!
//! What a solver carries from step to step (its history) goes on as constants in all three. A gradient's NaN is 0, its
//! infinities ±10⁵. The last step has the loss proper, in the same scale.

use crate::objective::Loss;
use crate::student::{Gradient, Student};
use crate::{Link, Stepwise};
use dyweight_core::denoiser::Differentiable;
use dyweight_core::error::Result;
use dyweight_core::sample::{self, Plan};
use dyweight_core::solver::Carried;
use dyweight_core::tape::{Cotangent, Memory, Tape, Var};
use dyweight_core::tensor::Tensor;
use dyweight_solvers::learnable::{Learnable, coeffs};
use dyweight_solvers::recipe::Updates;

/// A part of the batch on its way.
pub(crate) struct Walk<'m> {
    tape: Tape<'m>,
    x: Option<Var>,
    noise: Tensor,
    carried: Carried,
    /// The teacher's state after every step.
    targets: Vec<Tensor>,
}

/// What a step is made with.
pub(crate) struct Stride<'s> {
    pub student: &'s Student,
    pub learnable: &'s dyn Learnable,
    pub params: &'s [f64],
    pub stepwise: Stepwise,
    pub step: usize,
}

impl<'m> Walk<'m> {
    /// Before the first step.
    pub fn begin(model: &'m dyn Differentiable, afs: bool, noise: Tensor, targets: Vec<Tensor>) -> Self {
        // Sweeps over the same calls again and again: nothing is gained by keeping.
        let tape = Tape::recording(model, Memory::Recompute).analytic_first(afs);
        Self { tape, x: None, noise, carried: Carried::default(), targets }
    }

    /// One step; its losses, and where the parameters are to move its gradients.
    pub fn step(&mut self, stride: &Stride<'_>) -> Result<Gradient> {
        let Stride { student, learnable, params, stepwise, step } = stride;
        let built = learnable.build(&coeffs(params, true), &student.frame)?;
        let afs = student.frame.afs;
        let plan = Plan { solver: &*built.solver, times: built.times, afs, denoise_to_zero: false };
        let x = match self.x.take() {
            Some(x) => x,
            None => {
                let noise = self.tape.start(self.noise.clone());
                sample::start(&mut self.tape, &plan, &noise)?
            }
        };
        let (times, carried) = (plan.solver.times(&plan.times), std::mem::take(&mut self.carried));
        let mut run = plan.solver.resume(times, student.frame.prediction, carried)?;
        let next = sample::step(&mut self.tape, &plan, *step, |tape| run.step(tape, *step, x))?;
        self.carried = run.carried().detached();
        let is_last = *step + 1 == self.targets.len();
        let target = &self.targets[*step];
        let scale = next.tensor().sample_len() as f64;
        let loss = if is_last { &student.loss } else { &Loss::L2 };
        let (mut losses, cotangent) = loss.with_gradient(next.tensor(), target)?;
        losses.iter_mut().for_each(|v| *v *= scale);
        let wanted = stepwise.updates == Updates::Each || is_last;
        let gradients = match wanted {
            true => {
                let seed = Cotangent { sample: next.clone(), cotangent: cotangent.map(|v| scale * v) };
                self.tape.gradients_so_far(vec![seed], params.len())?.parameters
            }
            false => Vec::new(),
        };
        self.x = Some(match stepwise.link {
            Link::Attached => next,
            Link::Detached => next.detached(),
            Link::Teacher => self.tape.start(target.clone()),
        });
        if stepwise.link != Link::Attached {
            self.tape.forget();
        }
        Ok(Gradient { losses, gradients, ..Gradient::default() })
    }
}

/// The gradient of the mean loss, every entry a number.
pub(crate) fn tame(gradient: &Gradient) -> Vec<f64> {
    let tamed = |v: f64| if v.is_nan() { 0.0 } else { v.clamp(-1e5, 1e5).max(-1e5) };
    let entry = |v: f64| if v.is_finite() { v } else { tamed(v) };
    gradient.gradient().into_iter().map(entry).collect()
}
