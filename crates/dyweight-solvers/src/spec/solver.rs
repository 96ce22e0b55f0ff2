//! A solver from its name and options.

use super::spelling;
use dyweight_core::error::{Error, Result};
use dyweight_core::option;
use dyweight_core::solver::{
    Deis, DeisMode, Dpm2, DpmPp, Form, Heun, Ipndm, IpndmV, LowerOrderFinal, Predict, Solver, UniPc, Variant,
};

/// What there is to know about a method without building it.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Highest order, where it has a choice of orders.
    pub highest_order: Option<usize>,
    /// The order where none is said: the one that people mean by the name.
    pub default_order: Option<usize>,
    /// Options it takes besides the order.
    pub options: &'static [&'static str],
    /// One line.
    pub summary: &'static str,
}

const EXPONENTIAL: &[&str] = &["predict", "lower-order-final", "threshold"];
const UNIPC: &[&str] = &["predict", "lower-order-final", "threshold", "variant"];

/// All methods that need no learned coefficients, and `dyweight`, which does.
pub const METHODS: &[Method] = &[
    Method { alias: Some("ddim"), ..one("euler", "Euler (DDIM)", &[], "Euler, which DDIM is here; one call per step") },
    one("heun", "Heun", &[], "Heun's second order (EDM); two calls per step"),
    one("dpm2", "DPM-Solver-2", &["r"], "DPM-Solver-2, geometric midpoint; two calls per step"),
    Method { options: &[], ..many("ipndm", "iPNDM", 4, Ipndm::HIGHEST, "Adams-Bashforth weights on any grid") },
    Method { options: &[], ..many("ipndm-v", "iPNDM_v", 4, IpndmV::HIGHEST, "exact variable-step Adams-Bashforth") },
    Method { options: &[], ..many("deis-tab", "DEIS-tAB", 3, Deis::HIGHEST, "DEIS, interpolation in VP time") },
    Method { options: &[], ..many("deis-rhoab", "DEIS-ρAB", 3, Deis::HIGHEST, "DEIS, interpolation in sigma") },
    many("dpmpp", "DPM-Solver++", 2, DpmPp::HIGHEST, "DPM-Solver++ multistep"),
    Method { options: UNIPC, ..many("unipc", "UniPC", 2, UniPc::HIGHEST, "UniPC predictor-corrector") },
    one("dyweight", "DyWeight", &["weights"], "learned weights on past slopes; one call per step"),
];

/// A method of one order.
const fn one(
    name: &'static str,
    title: &'static str,
    options: &'static [&'static str],
    summary: &'static str,
) -> Method {
    Method { name, title, alias: None, highest_order: None, default_order: None, options, summary }
}

/// A multistep method of a choice of orders.
const fn many(
    name: &'static str,
    title: &'static str,
    default: usize,
    highest: usize,
    summary: &'static str,
) -> Method {
    let (highest_order, default_order) = (Some(highest), Some(default));
    Method { name, title, alias: None, highest_order, default_order, options: EXPONENTIAL, summary }
}

/// What a user says about a handcrafted solver.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SolverSpec {
    /// Name of the method.
    pub solver: String,
    /// Order; the method's default.
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

    /// What people call the method and its order: "iPNDM-2", "DPM-Solver++(2M)"; without an order where none is said.
    pub fn title(&self) -> String {
        let Ok((method, spelled)) = self.named_method() else { return self.solver.clone() };
        match self.order.or(spelled) {
            None => method.title.into(),
            Some(order) if method.name == "dpmpp" => format!("{}({order}M)", method.title),
            Some(order) if method.name.starts_with("deis") => format!("{}{order}", method.title),
            Some(order) => format!("{}-{order}", method.title),
        }
    }

    /// The same with the order it will have said: the default where none is.
    pub fn with_order(&self) -> Self {
        self.ordered(|method| method.default_order)
    }

    /// The same at its highest order, unless another is said: a teacher's.
    pub fn at_highest_order(&self) -> Self {
        self.ordered(|method| method.highest_order)
    }

    fn ordered(&self, order: impl Fn(&Method) -> Option<usize>) -> Self {
        let said = self.named_method().ok().and_then(|(method, spelled)| spelled.or(order(method)));
        Self { order: self.order.or(said), ..self.clone() }
    }

    /// The method, and the order if the name says one.
    fn named_method(&self) -> Result<(&'static Method, Option<usize>)> {
        if let Some(found) = find(&self.solver)? {
            return Ok(found);
        }
        if let Some((solver, schedule)) = spelling::with_schedule(&self.solver)
            && let Some((method, order)) = find(&solver)?
        {
            let order = order.map_or_else(String::new, |order| format!(":{order}"));
            return Err(Error::conflict(
                format!("'{}' names a solver and a schedule", self.solver),
                format!("write {}{order}@{schedule}, or name the schedule by its own option", method.name),
            ));
        }
        // Where a solver is all that is asked for, as a teacher is.
        if let Some((solver, _)) = self.solver.split_once([':', '@', '+'])
            && let Some((method, _)) = find(solver)?
        {
            return Err(Error::conflict(
                format!("'{}' says more than a solver's name, which stands alone here", self.solver),
                format!("write {}, and say the rest by its own options", method.name),
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
        let order = self.order.or(spelled_order).or(method.default_order).unwrap_or(1);
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

    /// An error for an option that handcrafted methods have and `name` has not.
    pub fn refuse_options_beyond(&self, options: &[&str], name: &str) -> Result<()> {
        let given = [
            ("predict", self.predict.is_some()),
            ("lower-order-final", self.lower_order_final.is_some()),
            ("variant", self.variant.is_some()),
            ("r", self.r.is_some()),
            ("threshold", self.threshold.is_some()),
        ];
        let foreign = given.map(|(option, given)| (option, given && !options.contains(&option)));
        option::refuse(&foreign, |option| Error::no_effect(option, format!("{name} does not have it")))
    }

    fn refuse_foreign_options(&self, method: &Method) -> Result<()> {
        self.refuse_options_beyond(method.options, method.name)?;
        if self.threshold == Some(true) && self.predict == Some(Predict::Noise) {
            return Err(Error::no_effect("threshold", "noise predictions have no range to be kept in"));
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
            ("dpmpp_2m_karras", "write dpmpp:2@karras, or"),
            ("euler_karras", "write euler@karras, or"),
            ("ipndm:3", "write ipndm, and say the rest"),
            ("euler_ancestral", "the nearest without noise is 'euler'"),
            ("dpmpp_2m_sde", "the nearest without noise is 'dpmpp'"),
            ("lms", "the nearest is 'ipndm-v'"),
            ("karras", "give it as `schedule = karras`"),
            ("AYS", "give it as `schedule = AYS`"),
            ("res_2s", "the nearest is 'dpm2'"),
        ] {
            let hint = SolverSpec::named(name).build(true).err().and_then(|e| e.hint()).unwrap();
            assert!(hint.contains(answer), "{name}: {hint}");
        }
    }

    #[test]
    fn an_order_that_is_not_said_is_the_one_people_mean() {
        let label = |name: &str| SolverSpec::named(name).build(true).unwrap().label();
        let names = ["ipndm", "dpmpp", "unipc", "deis-tab", "dpmpp_3m"];
        assert_eq!(names.map(label), ["ipndm(4)", "dpmpp(2M)", "unipc(2)", "deis-tab(3)", "dpmpp(3M)"]);
        let highest = |name: &str| SolverSpec::named(name).at_highest_order().order;
        assert_eq!(["unipc", "dpmpp_2m", "euler"].map(highest), [Some(3), Some(2), None]);
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
