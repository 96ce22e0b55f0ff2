//! A solver from its name and options.

use super::spelling;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{
    Deis, DeisMode, Dpm2, DpmPp, Form, Heun, Ipndm, IpndmV, LowerOrderFinal, Predict, Solver, UniPc, Variant,
};

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
    /// Lower the order towards the end: `auto`, true or false.
    pub lower_order_final: Option<LowerOrderFinal>,
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

    /// What is known about the method. Its name may be one that other programs have for it.
    pub fn method(&self) -> Result<&'static Method> {
        self.named_method().map(|(method, _)| method)
    }

    /// The method, and the order if the name says one.
    fn named_method(&self) -> Result<(&'static Method, Option<usize>)> {
        if let Some(found) = find(&self.solver)? {
            return Ok(found);
        }
        if let Some((solver, schedule)) = spelling::with_schedule(&self.solver)
            && let Some((method, order)) = find(&solver)?
        {
            let name = method.name;
            let (with, colon) = order.map_or_else(Default::default, |o| (format!(" `order = {o}`"), format!(":{o}")));
            return Err(Error::conflict(
                format!("'{}' names a solver and a schedule", self.solver),
                format!("use `solver = {name}`{with} `schedule = {schedule}`, or in a list {name}{colon}@{schedule}"),
            ));
        }
        // As in lists of solvers, which read these parts themselves.
        if let Some((solver, rest)) = self.solver.split_once([':', '@'])
            && let Some((method, _)) = find(solver)?
        {
            let flag = if self.solver[solver.len()..].starts_with(':') { "order" } else { "schedule" };
            return Err(Error::conflict(
                format!("'{}' is how a list of solvers has it", self.solver),
                format!("use `solver = {}` `{flag} = {rest}`", method.name),
            ));
        }
        Err(Error::unknown_name("solver", self.solver.clone(), METHODS.iter().map(|m| m.name)))
    }

    /// The solver. `dyweight` is not built here: it needs weights.
    ///
    /// Data predictions of a model whose data are bounded ([`dyweight_core::denoiser::Model::is_bounded`]) are
    /// thresholded unless told otherwise, as the released solvers do; latents have no such range.
    pub fn build(&self, bounded: bool) -> Result<Box<dyn Solver>> {
        let (method, spelled_order) = self.named_method()?;
        let form = Form {
            predict: self.predict.unwrap_or_default(),
            threshold: self.threshold.unwrap_or(bounded),
            lower_order_final: self.lower_order_final.unwrap_or_default(),
        };
        self.refuse_foreign_options(method)?;
        let order = self.order.or(spelled_order).or(method.highest_order).unwrap_or(1);
        Ok(match method.name {
            "euler" => Box::new(Ipndm::euler()),
            "heun" => Box::new(Heun),
            "dpm2" => Box::new(Dpm2::new(self.r.unwrap_or(0.5))?),
            "ipndm" => Box::new(Ipndm::new(order)?),
            "ipndm-v" => Box::new(IpndmV::new(order)?),
            "deis-tab" => Box::new(Deis::new(DeisMode::TimeAb, order)?),
            "deis-rhoab" => Box::new(Deis::new(DeisMode::RhoAb, order)?),
            "dpmpp" => Box::new(DpmPp::new(order, form)?),
            "unipc" => Box::new(UniPc::new(order, form)?.variant(self.variant.unwrap_or_default())),
            _ => {
                return Err(Error::conflict(
                    format!("solver {} has no coefficients of its own", method.name),
                    "give `weights`: a solver file, preset:NAME or a safetensors file",
                ));
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
            return Err(Error::no_effect(option, format!("{} does not have it", method.name)));
        }
        if let (Some(order), None) = (self.order, method.highest_order) {
            return Err(Error::bad_value("order", order, format!("{} has no choice of order", method.name)));
        }
        Ok(())
    }
}

/// The method of a name of ours or of others, and the order if the name says one.
fn find(name: &str) -> Result<Option<(&'static Method, Option<usize>)>> {
    let is_ours = |m: &&Method| {
        [Some(m.name), m.alias].into_iter().flatten().any(|n| spelling::plain(n) == spelling::plain(name))
    };
    if let Some(method) = METHODS.iter().find(is_ours) {
        return Ok(Some((method, None)));
    }
    let Some((ours, order)) = spelling::foreign(name)? else { return Ok(None) };
    Ok(METHODS.iter().find(|m| m.name == ours).map(|method| (method, order)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_built_by_name_and_foreign_options_are_refused() {
        for method in METHODS.iter().filter(|m| m.name != "dyweight") {
            assert!(SolverSpec::named(method.name).build(true).is_ok(), "{}", method.name);
            let spec = SolverSpec { order: Some(9), ..SolverSpec::named(method.name) };
            assert!(spec.build(true).is_err(), "{}", method.name);
            let spec = SolverSpec { variant: Some(Variant::Bh1), ..SolverSpec::named(method.name) };
            assert_eq!(spec.build(true).is_ok(), method.name == "unipc");
        }
        assert!(SolverSpec::named("ddim").build(true).is_ok());
        assert!(SolverSpec::named("dyweight").build(true).is_err());
        let hint = SolverSpec::named("ipdnm").build(true).err().and_then(|e| e.hint()).unwrap();
        assert!(hint.contains("did you mean 'ipndm'"), "{hint}");
    }

    #[test]
    fn names_of_other_programs_are_understood_or_answered_with_ours() {
        for (name, label) in [
            ("dpm++", "dpmpp"),
            ("DPM++ 2M", "dpmpp:2"),
            ("dpmpp_2m", "dpmpp:2"),
            ("EDMDPMSolverMultistep", "dpmpp:2"),
            ("DPMSolverMultistepScheduler", "dpmpp:2"),
            ("uni_pc", "unipc"),
            ("UniPC", "unipc"),
            ("DDIM", "euler"),
            ("EulerDiscreteScheduler", "euler"),
            ("sample_heun", "heun"),
            ("dpm_2", "dpm2"),
            ("ipndm_v", "ipndm-v"),
            ("deis", "deis-tab:3"),
        ] {
            let (ours, order) = label.split_once(':').map_or((label, None), |(n, o)| (n, o.parse().ok()));
            let expected = SolverSpec { order, ..SolverSpec::named(ours) }.build(true).unwrap().label();
            assert_eq!(SolverSpec::named(name).build(true).unwrap().label(), expected, "{name}");
        }
        // What the order says goes before what the name does.
        let said = SolverSpec { order: Some(3), ..SolverSpec::named("dpmpp_2m") }.build(true).unwrap().label();
        assert_eq!(said, SolverSpec { order: Some(3), ..SolverSpec::named("dpmpp") }.build(true).unwrap().label());
        for (name, answer) in [
            ("dpmpp_2m_karras", "`solver = dpmpp` `order = 2` `schedule = karras`, or in a list dpmpp:2@karras"),
            ("euler_karras", "`solver = euler` `schedule = karras`"),
            ("euler_ancestral", "the nearest without noise is 'euler'"),
            ("dpmpp_2m_sde", "the nearest without noise is 'dpmpp'"),
            ("lms", "the nearest is 'ipndm-v'"),
            ("karras", "known: euler"),
        ] {
            let hint = SolverSpec::named(name).build(true).err().and_then(|e| e.hint()).unwrap();
            assert!(hint.contains(answer), "{name}: {hint}");
        }
    }

    #[test]
    fn lowered_orders_are_auto_true_or_false() {
        let read = |word: &str| {
            serde_json::from_str::<SolverSpec>(&format!(r#"{{"solver": "dpmpp", "lower-order-final": {word}}}"#))
        };
        for (word, setting) in
            [(r#""auto""#, LowerOrderFinal::Auto), ("true", LowerOrderFinal::Always), ("false", LowerOrderFinal::Never)]
        {
            assert_eq!(read(word).unwrap().lower_order_final, Some(setting));
            assert_eq!(serde_json::to_string(&setting).unwrap(), word);
            assert_eq!(setting.to_string().parse::<LowerOrderFinal>().unwrap(), setting);
        }
        assert!(read("\"never\"").unwrap_err().to_string().contains("auto, true or false"));
    }
}
