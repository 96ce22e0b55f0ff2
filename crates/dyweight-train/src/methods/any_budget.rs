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
use serde::{Deserialize, Serialize};

/// Options of a solver for any budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct AnyBudgetOptions {
    /// Degree of any's polynomials in the step [3].
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Solver"))]
    pub step_degree: Option<usize>,
}

/// The usual degree in the step.
const DEGREE: usize = 3;

/// The method.
pub(super) struct AnyBudgetMethod;

impl Method for AnyBudgetMethod {
    fn name(&self) -> &'static str {
        "any"
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs", "order", "step-degree"]
    }

    fn usual_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    /// A weight is a sum of some numbers and moves by as many rates.
    fn usual_rate(&self, _: usize) -> f64 {
        5e-3
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
        let steps = also.iter().chain([frame]).map(|f| f.grid.steps()).collect();
        let degree = spec.any.step_degree.unwrap_or(DEGREE);
        if degree > MOST {
            let expected = format!("must be at most {MOST}");
            return Err(Error::BadValue { name: "step-degree", value: degree.to_string(), expected });
        }
        let window = spec.order.unwrap_or(USUAL_WINDOW);
        if window == 0 || window > MOST {
            let expected = format!("any's window has 1 to {MOST} slopes");
            return Err(Error::BadValue { name: "order", value: window.to_string(), expected });
        }
        let fresh = AnyBudget::start(window, steps, degree);
        let body = match spec.init.as_deref() {
            None | Some("ab" | "ipndm") => fresh,
            Some(source) => given(source, spec, fresh)?,
        };
        let window = body.order;
        let settled = TrainSpec { order: Some(window), ..spec.clone() };
        Ok(Start { window, settled, ..Start::of(Body::Any(body), spec)? })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&["weights", "time_scale"])])
    }
}

/// Largest degree and window.
const MOST: usize = 15;

/// The numbers of a file over the same range. What the options leave open the file decides.
fn given(source: &str, spec: &TrainSpec, fresh: AnyBudget) -> Result<AnyBudget> {
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
    let shape = |any: &AnyBudget| (any.order, any.time_scale.len());
    let said = spec.order.is_some() || spec.any != AnyBudgetOptions::default();
    if said && shape(&body) != shape(&fresh) {
        return Err(Error::Conflict {
            problem: format!("{source} has another window or degree"),
            hint: "leave --order and --step-degree out: they are the file's".into(),
        });
    }
    Ok(body.with_budgets(fresh.trained))
}
