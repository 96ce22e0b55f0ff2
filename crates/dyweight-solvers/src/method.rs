//! The learned methods: the list of them, and what each says of itself.
//!
//! A method is one file: parameters and the solver they stand for ([`LearnedSolver`]), and how its authors teach it
//! ([`Method`]). Its line in [`METHODS`] is all that is written of it elsewhere. The trainer is the same for all.

use crate::amed::AmedMethod;
use crate::dlms::DlmsMethod;
use crate::dss::DssMethod;
use crate::dyweight::{DyWeightMethod, Weights};
use crate::epd::EpdMethod;
use crate::gits::GitsMethod;
use crate::ld3::Ld3Method;
use crate::learnable::{ByParams, Learnable};
use crate::learned::{Frame, LearnedSolver};
use crate::recipe::{Common, Phase, Relaxation, Teaching};
use crate::s4s::S4sMethod;
use crate::solver_file::Asked;
use crate::spec::{ScheduleSpec, TrainSpec};
use crate::{Amed, AmedPlugin, AnyBudget, Dlms, Dss, Epd, EpdPlugin, Gits, Ld3, S4s};
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Ipndm, Solver};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The list: a line for each method says its variant, its type, its name, how it is taught, and what it learns.
macro_rules! methods {
    ($($variant:ident($body:ty) = $name:literal, $taught:expr, $learns:literal;)*) => {
        /// A learned solver of any method, written as `"method"` and `"body"`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "method", content = "body")]
        pub enum MethodParams {
            $(#[doc = $learns] #[serde(rename = $name)] $variant($body),)*
        }

        /// All methods.
        pub static METHODS: &[Listed] = &[$(Listed { name: $name, learns: $learns, taught: $taught },)*];

        impl MethodParams {
            /// The method's name.
            pub fn method(&self) -> &'static str {
                match self { $(MethodParams::$variant(_) => $name,)* }
            }

            /// What all methods have in common.
            pub fn learned(&self) -> &(dyn LearnedSolver + 'static) {
                match self { $(MethodParams::$variant(body) => body,)* }
            }

            /// The same, to be changed.
            pub(crate) fn learned_mut(&mut self) -> &mut (dyn LearnedSolver + 'static) {
                match self { $(MethodParams::$variant(body) => body,)* }
            }
        }
    };
}

methods! {
    DyWeight(Weights) = "dyweight", Some(&DyWeightMethod), "weights on past slopes and scales of the network's time";
    Any(AnyBudget) = "any", None, "dyweight's for several budgets, and what lies between: one file for a range of budgets";
    Ld3(Ld3) = "ld3", Some(&Ld3Method), "times of any solver, and times told to the network";
    Epd(Epd) = "epd", Some(&EpdMethod { plugin: false }), "points inside each step, evaluated side by side";
    EpdPlugin(EpdPlugin) = "epd-plugin", Some(&EpdMethod { plugin: true }), "the same around iPNDM";
    Amed(Amed) = "amed", Some(&AmedMethod { plugin: false }), "a point inside each step, predicted for each sample";
    AmedPlugin(AmedPlugin) = "amed-plugin", Some(&AmedMethod { plugin: true }), "the same around euler, dpm2, ipndm or dpmpp";
    Gits(Gits) = "gits", Some(&GitsMethod), "a grid for any solver, searched without gradients";
    Dss(Dss) = "dss", Some(&DssMethod), "step sizes, and slopes mixed with those before";
    Dlms(Dlms) = "dlms", Some(&DlmsMethod), "a multistep method predicted for each sample";
    S4s(S4s) = "s4s", Some(&S4sMethod { alt: false }), "coefficients of a multistep method";
    S4sAlt(S4s) = "s4s-alt", Some(&S4sMethod { alt: true }), "coefficients and grid of a multistep method, in turns";
}

impl MethodParams {
    /// The weights, of a DyWeight solver.
    pub fn weights(&self) -> Option<&Weights> {
        match self {
            MethodParams::DyWeight(weights) => Some(weights),
            _ => None,
        }
    }

    /// The body of a method from its fields, checked.
    pub fn of(method: &str, fields: Map<String, Value>) -> Result<Self> {
        if !METHODS.iter().any(|listed| listed.name == method) {
            return Err(unknown(method, METHODS));
        }
        let tagged = [("method".to_string(), Value::from(method)), ("body".to_string(), Value::Object(fields))];
        let body: Self = serde_json::from_value(tagged.into_iter().collect())
            .map_err(|e| Error::bad_value("body", method, e.to_string().chars().take(200).collect::<String>()))?;
        body.learned().check()?;
        Ok(body)
    }

    /// The version of the format in which it is written: readers of version 2 that are older than spans would pass over
    /// one.
    pub(crate) fn version(&self) -> u32 {
        if self.weights().is_some_and(|weights| !weights.span.is_empty()) { 3 } else { 2 }
    }

    /// The first of these keys that means nothing to the method. Bodies share parts (`serde(flatten)`), where serde
    /// itself cannot refuse a key; but what it has not understood it does not write again. Something empty may be left
    /// out, and says nothing.
    pub(crate) fn unknown_key<'k>(&self, given: &'k Map<String, Value>) -> Option<&'k str> {
        let written = serde_json::to_value(self).unwrap_or_default();
        let says_nothing =
            |value: &Value| [Value::Null, Value::Array(vec![]), Value::Object(Map::new())].contains(value);
        let unknown = |(key, value): &(&String, &Value)| written["body"].get(key).is_none() && !says_nothing(value);
        given.iter().find(unknown).map(|(key, _)| key.as_str())
    }
}

/// A method in the list.
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it learns.
    pub learns: &'static str,
    /// How it is taught; none for one that is made of others.
    pub taught: Option<&'static dyn Method>,
}

/// Reads what a start names, at the steps and guidance that are asked for: parameters, and for how many steps they are.
pub type Open<'o> = dyn Fn(&str, Option<Asked>) -> Result<(MethodParams, Option<usize>)> + 'o;

/// Options of descent, which a method without gradients does not have.
const DESCENT: &[&str] = &[
    "init",
    "loss",
    "iters",
    "batch",
    "accumulate",
    "pairs",
    "validate-every",
    "lr",
    "warm-up",
    "lr-rule",
    "optimiser",
    "weight-decay",
    "clip-gradient",
];

/// A method that is learned.
pub trait Method: Sync {
    /// Which of the options that not all methods have it takes.
    fn options(&self) -> &'static [&'static str];

    /// The options, with those that its authors' recipe decides filled in where nothing was said.
    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
        spec
    }

    /// True if its few parameters are learned best from few pairs, from a start that is chosen.
    fn learns_from_few(&self) -> bool {
        false
    }

    /// Starts that have names, which `init` may say instead of a file.
    fn named_starts(&self) -> &'static [&'static str] {
        &[]
    }

    /// False for a method that is searched for instead.
    fn learns_by_gradients(&self) -> bool {
        true
    }

    /// The rule of the grid, where nothing was said.
    fn default_schedule(&self, given: &ScheduleSpec, _: Prediction) -> ScheduleSpec {
        given.clone()
    }

    /// Whether the grid of a budget is found with the analytical first step.
    fn grid_afs(&self, afs: bool) -> bool {
        afs
    }

    /// What the student is compared with.
    fn teaching(&self, spec: &TrainSpec, _: &Frame, _: &dyn Learnable) -> Result<Teaching> {
        Ok(Teaching { supervision: spec.supervised()?, stepwise: None, near: None, halved: false })
    }

    /// Whether a budget of network calls is spent with an analytical first step.
    fn default_afs(&self, _: Prediction) -> bool {
        false
    }

    /// The rate for a number of steps.
    fn default_rate(&self, steps: usize) -> f64;

    /// The largest norm of a gradient.
    fn default_clip(&self) -> f64 {
        1.0
    }

    /// A solver that makes as many calls on every grid.
    fn stand_in(&self, _spec: &TrainSpec, _bounded: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    /// Where training starts; `open` reads what `init` names.
    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start>;

    /// How the noise of pairs moves, where it does; a sample has so many parameters.
    fn relaxed(&self, _spec: &TrainSpec, _frame: &Frame, _numbers: usize) -> Result<Option<Relaxation>> {
        Ok(None)
    }

    /// What is moved, one phase after the other.
    fn phases(&self, _spec: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&learnable.blocks().iter().map(|block| block.name).collect::<Vec<_>>())])
    }
}

/// Slopes that a step weighs where nothing is said.
pub(crate) const DEFAULT_WINDOW: usize = 3;

/// Where training starts.
pub struct Start {
    /// What is learned.
    pub learnable: Arc<dyn Learnable>,
    /// Its parameters.
    pub params: Vec<f64>,
    /// The most slopes a step weighs; for a method without such a number, of iPNDM, with which it is compared.
    pub window: usize,
    /// The options, with what was decided filled in.
    pub settled: TrainSpec,
}

impl Start {
    /// The start of a method that learns its body's parameters as they are.
    pub(crate) fn of(body: MethodParams, spec: &TrainSpec) -> Result<Self> {
        body.learned().check()?;
        let params = body.learned().params();
        Ok(Self { learnable: Arc::new(ByParams(body)), params, window: DEFAULT_WINDOW, settled: spec.clone() })
    }

    /// The body that `--init` names, if it does: one of this method and of as many steps.
    pub(crate) fn given(spec: &TrainSpec, steps: usize, open: &Open) -> Result<Option<MethodParams>> {
        let (Some(source), method) = (spec.init.as_deref(), spec.method_name()) else { return Ok(None) };
        let (body, found) = open(source, None)?;
        if body.method() != method {
            return Err(other_method(source, body.method(), method));
        }
        if let Some(found) = found.filter(|found| *found != steps) {
            let what = format!("steps of {source}, given as the start");
            return Err(Error::Shape { what, expected: vec![steps], found: vec![found] });
        }
        Ok(Some(body))
    }
}

/// A method by its name, of those that can be taught.
pub fn find(name: &str) -> Result<&'static dyn Method> {
    let listed = METHODS.iter().find(|listed| listed.name == name);
    listed.and_then(|listed| listed.taught).ok_or_else(|| unknown(name, METHODS.iter().filter(|m| m.taught.is_some())))
}

fn unknown<'m>(name: &str, known: impl IntoIterator<Item = &'m Listed>) -> Error {
    Error::unknown_name(
        "method",
        name.chars().take(80).collect::<String>(),
        known.into_iter().map(|listed| listed.name),
    )
}

/// What can be learned: name, what it learns, and the options that are its own.
pub fn list() -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    METHODS.iter().filter_map(|listed| Some((listed.name, listed.learns, listed.taught?.options()))).collect()
}

/// An option that belongs to another method would be ignored in silence; it is refused instead.
pub fn refuse_foreign_options(method: &dyn Method, spec: &TrainSpec) -> Result<()> {
    let given = serde_json::to_value(spec).unwrap_or_default();
    let of_some = METHODS.iter().filter_map(|listed| listed.taught).flat_map(|method| method.options());
    let of_descent = DESCENT.iter().filter(|_| !method.learns_by_gradients());
    let foreign = |option: &&&str| !given[**option].is_null() && !method.options().contains(option);
    match of_some.chain(of_descent).find(foreign) {
        Some(option) => Err(Error::no_effect(option, format!("`method = {}` does not have it", spec.method_name()))),
        None => Ok(()),
    }
}

/// A start of another method.
pub(crate) fn other_method(source: &str, found: &str, wanted: &str) -> Error {
    Error::conflict(
        format!("{source} holds a solver of the method {found}, not {wanted}"),
        format!("use `method = {found}`, or another `init`"),
    )
}
