//! DyWeight for a range of budgets: all of them in every iteration, on the same pairs, towards the geometric mean of their losses (`budgets.rs`).

use super::{Common, Method, Start, USUAL_WINDOW, other_method};
use crate::learnable::Learnable;
use crate::learned::Learned;
use crate::recipe::Phase;
use crate::spec::TrainSpec;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Ipndm, Solver};
use dyweight_methods::AnyBudget;
use dyweight_methods::learned::Frame;
use dyweight_methods::solver_file::Body;

/// The method.
pub(super) struct AnyBudgetMethod;

impl Method for AnyBudgetMethod {
    fn name(&self) -> &'static str {
        "any"
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs", "order"]
    }

    fn usual_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    /// DyWeight's between few steps and many.
    fn usual_rate(&self, _: usize) -> f64 {
        2e-2
    }

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        self.start_of_all(spec, frame, &[])
    }

    fn serves_several(&self) -> bool {
        true
    }

    fn start_of_all(&self, spec: &TrainSpec, frame: &Frame, also: &[Frame]) -> Result<Start> {
        let steps: Vec<usize> = also.iter().chain([frame]).map(|f| f.grid.steps()).collect();
        let window = spec.order.unwrap_or(USUAL_WINDOW);
        if window == 0 || window > MOST {
            let expected = format!("any's window has 1 to {MOST} slopes");
            return Err(Error::BadValue { name: "order", value: window.to_string(), expected });
        }
        let fresh = AnyBudget::start(window, &steps, frame.afs);
        let body = match spec.init.as_deref() {
            None | Some("ab" | "ipndm") => fresh,
            Some(source) => given(source, spec, &fresh, &steps)?,
        };
        let window = body.window();
        let settled = TrainSpec { order: Some(window), ..spec.clone() };
        Ok(Start { window, settled, ..Start::of(Body::Any(body), spec)? })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&["weights", "time_scale"])])
    }
}

/// The widest window.
const MOST: usize = 16;

/// The numbers of a file over the same range. What the options leave open the file decides.
fn given(source: &str, spec: &TrainSpec, fresh: &AnyBudget, steps: &[usize]) -> Result<AnyBudget> {
    let body = match Learned::open(source)?.body {
        Body::Any(body) => body,
        other => return Err(other_method(source, other.method(), "any")),
    };
    if body.range() != fresh.range() {
        let ((least, most), (from, to)) = (body.range(), fresh.range());
        return Err(Error::Conflict {
            problem: format!("{source} serves {least} to {most} steps, and {from} to {to} are to be trained"),
            hint: "begin and end --nfe as the file's training did, or leave --init out".into(),
        });
    }
    if spec.order.is_some_and(|window| window != body.window()) {
        return Err(Error::Conflict {
            problem: format!("{source} has a window of {} slopes", body.window()),
            hint: "leave --order out: it is the file's".into(),
        });
    }
    let given = body.with_budgets(steps)?;
    let scales = |any: &AnyBudget| any.trained.first().map(|t| t.time_scale.len());
    if scales(&given) != scales(fresh) {
        return Err(Error::Conflict {
            problem: format!("{source} was trained with another first step (--afs)"),
            hint: "say --afs true or false as it was then".into(),
        });
    }
    Ok(given)
}
