//! DLMS (Liang et al. 2025): the designer by Adam at 5·10⁻³ on the endpoint. The recipe is second-hand; see the solver for what is our own.

use super::{Common, Method, Start};
use crate::learnable::Learnable;
use crate::recipe::Phase;
use crate::spec::TrainSpec;
use dyweight_core::denoiser::{Prediction, no_feature};
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use dyweight_core::solver::{Ipndm, Solver};
use dyweight_solvers::Dlms;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;

/// The method.
pub(super) struct DlmsMethod;

impl Method for DlmsMethod {
    fn name(&self) -> &'static str {
        "dlms"
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs"]
    }

    fn default_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    fn default_rate(&self, _: usize) -> f64 {
        5e-3
    }

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        if let Some(body) = Start::given(self.name(), spec, frame.grid.steps())? {
            return Start::of(body, spec);
        }
        let features = frame.feature.ok_or_else(|| no_feature(0, None))?;
        let seed = spec.seed.unwrap_or(0);
        let [mut u, mut z] = ["uniform", "normal"].map(|kind| Stream::labelled(seed, &format!("designer {kind}")));
        Start::of(MethodParams::Dlms(Dlms::start(features, || u.uniform(), || z.normal())), spec)
    }

    fn phases(&self, _: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&learnable.blocks().iter().map(|b| b.name).collect::<Vec<_>>())])
    }
}
