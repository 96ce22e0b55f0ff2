//! A solver from its name and options.

use crate::denoiser::Prediction;
use crate::error::{Error, Result};
use crate::solver::{Deis, DeisMode, Dpm2, DpmPp, Heun, Ipndm, IpndmV, Predict, Solver, UniPc, Variant};

/// What there is to know about a method without building it.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Highest order, where it has a choice of orders; also the default.
    pub highest_order: Option<usize>,
    /// Options it takes besides the order.
    pub options: &'static [&'static str],
    /// One line.
    pub summary: &'static str,
}

const EXPONENTIAL: &[&str] = &["predict", "lower-order-final", "threshold"];
const UNIPC: &[&str] = &["predict", "lower-order-final", "threshold", "variant"];

/// All methods that need no learned coefficients, and `dyweight`, which does.
pub const METHODS: &[Method] = &[
    method("euler", None, &[], "Euler, which DDIM is here; one call per step"),
    method("heun", None, &[], "Heun's second order (EDM); two calls per step"),
    method("dpm2", None, &["r"], "DPM-Solver-2, geometric midpoint; two calls per step"),
    method("ipndm", Some(Ipndm::HIGHEST), &[], "Adams-Bashforth weights on any grid; one call per step"),
    method("ipndm-v", Some(IpndmV::HIGHEST), &[], "exact variable-step Adams-Bashforth; one call per step"),
    method("deis-tab", Some(Deis::HIGHEST), &[], "DEIS, interpolation in VP time; one call per step"),
    method("deis-rhoab", Some(Deis::HIGHEST), &[], "DEIS, interpolation in sigma; one call per step"),
    method("dpmpp", Some(DpmPp::HIGHEST), EXPONENTIAL, "DPM-Solver++ multistep; one call per step"),
    method("unipc", Some(UniPc::HIGHEST), UNIPC, "UniPC predictor-corrector; one call per step"),
    method("dyweight", None, &["weights"], "learned weights on past slopes; one call per step"),
];

const fn method(
    name: &'static str,
    highest_order: Option<usize>,
    options: &'static [&'static str],
    summary: &'static str,
) -> Method {
    // const fn cannot compare strings; Euler's is the only alias.
    let alias = if name.len() == 5 && name.as_bytes()[0] == b'e' { Some("ddim") } else { None };
    Method { name, alias, highest_order, options, summary }
}

/// What a user says about a handcrafted solver.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SolverSpec {
    /// Name of the method.
    pub solver: String,
    /// Order; the method's highest.
    pub order: Option<usize>,
    /// Data or noise prediction.
    pub predict: Option<Predict>,
    /// Lower the order towards the end.
    pub lower_order_final: Option<bool>,
    /// UniPC's B(h).
    pub variant: Option<Variant>,
    /// Where DPM-Solver-2 puts its middle.
    pub r: Option<f64>,
    /// Dynamic thresholding of data predictions.
    pub threshold: Option<bool>,
}

impl SolverSpec {
    /// A method with its defaults.
    pub fn named(name: &str) -> Self {
        Self { solver: name.into(), ..Self::default() }
    }

    /// What is known about the method.
    pub fn method(&self) -> Result<&'static Method> {
        METHODS.iter().find(|m| m.name == self.solver || m.alias == Some(&self.solver)).ok_or_else(|| {
            let known = METHODS.iter().map(|m| m.name.to_string()).collect();
            Error::UnknownName { kind: "solver", name: self.solver.clone(), known }
        })
    }

    /// The solver for a kind of prediction. `dyweight` is not built here: it needs weights.
    ///
    /// Data predictions of images in [−1, 1] are thresholded unless told otherwise, as the released solvers do; a flow's
    /// latents have no such range.
    pub fn build(&self, prediction: Prediction) -> Result<Box<dyn Solver>> {
        let method = self.method()?;
        let threshold = self.threshold.unwrap_or(prediction == Prediction::Denoised);
        self.refuse_foreign_options(method)?;
        let order = self.order.or(method.highest_order).unwrap_or(1);
        Ok(match method.name {
            "euler" => Box::new(Ipndm::euler()),
            "heun" => Box::new(Heun),
            "dpm2" => Box::new(Dpm2::new(self.r.unwrap_or(0.5))?),
            "ipndm" => Box::new(Ipndm::new(order)?),
            "ipndm-v" => Box::new(IpndmV::new(order)?),
            "deis-tab" => Box::new(Deis::new(DeisMode::TimeAb, order)?),
            "deis-rhoab" => Box::new(Deis::new(DeisMode::RhoAb, order)?),
            "dpmpp" => Box::new(
                DpmPp::new(order)?
                    .predict(self.predict.unwrap_or_default())
                    .threshold(threshold)
                    .lower_order_final(self.lower_order_final.unwrap_or(true)),
            ),
            "unipc" => Box::new(
                UniPc::new(order)?
                    .predict(self.predict.unwrap_or_default())
                    .threshold(threshold)
                    .variant(self.variant.unwrap_or_default())
                    .lower_order_final(self.lower_order_final.unwrap_or(true)),
            ),
            _ => {
                return Err(Error::Conflict {
                    problem: format!("solver {} has no coefficients of its own", method.name),
                    hint:
                        "give --weights: a solver file, preset:NAME (see 'dyweight list presets') or a safetensors file"
                            .into(),
                });
            }
        })
    }

    fn refuse_foreign_options(&self, method: &Method) -> Result<()> {
        let given = [
            ("predict", self.predict.is_some()),
            ("lower-order-final", self.lower_order_final.is_some()),
            ("variant", self.variant.is_some()),
            ("r", self.r.is_some()),
            ("threshold", self.threshold.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(option, given)| *given && !method.options.contains(option)) {
            return Err(Error::Conflict {
                problem: format!("{} has no option {option}", method.name),
                hint: format!("leave --{option} out"),
            });
        }
        if let (Some(order), None) = (self.order, method.highest_order) {
            let expected = format!("{} has no choice of order", method.name);
            return Err(Error::BadValue { name: "order", value: order.to_string(), expected });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_built_by_name_and_foreign_options_are_refused() {
        for method in METHODS.iter().filter(|m| m.name != "dyweight") {
            assert!(SolverSpec::named(method.name).build(Prediction::Denoised).is_ok(), "{}", method.name);
            let spec = SolverSpec { order: Some(9), ..SolverSpec::named(method.name) };
            assert!(spec.build(Prediction::Denoised).is_err(), "{}", method.name);
            let spec = SolverSpec { variant: Some(Variant::Bh1), ..SolverSpec::named(method.name) };
            assert_eq!(spec.build(Prediction::Denoised).is_ok(), method.name == "unipc");
        }
        assert!(SolverSpec::named("ddim").build(Prediction::Denoised).is_ok());
        assert!(SolverSpec::named("dyweight").build(Prediction::Denoised).is_err());
        let hint = SolverSpec::named("ipdnm").build(Prediction::Denoised).err().and_then(|e| e.hint()).unwrap();
        assert!(hint.contains("did you mean 'ipndm'"), "{hint}");
    }
}
