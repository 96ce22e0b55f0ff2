//! The options of training: the one list, for the command line, a TOML file and other programs. What a method alone
//! knows stands in its file.

use super::{Budget, ScheduleSpec};
use crate::base::BaseOptions;
use crate::dss::DssOptions;
use crate::dyweight::DyWeightOptions;
use crate::epd::PointOptions;
use crate::gits::GitsOptions;
use crate::ld3::Ld3Options;
use crate::method::{self, Method};
use crate::rate::RateRule;
use crate::recipe::{CountParallel, Optimiser, RelaxOptions, Supervision, Teaching};
use dyweight_core::error::{Error, Result};
use dyweight_core::tape::Memory;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a user says about training: the one list of options, for the command line, a TOML file and other programs. What
/// is left out is decided here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct TrainSpec {
    /// What is learned: see 'dyweight list methods' [dyweight].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Solver"))]
    pub method: Option<String>,
    /// few: few pairs, no gradients; paper: many, Adam.
    #[cfg_attr(feature = "clap", arg(long, value_name = "few|paper", value_parser = one_of::<TrainRecipe>(&["few", "paper"]), hide_possible_values = true, help_heading = "Optimisation"))]
    pub recipe: Option<TrainRecipe>,
    /// Choose what of grid, order and analytical first step is not given, by a little training of each start [true with
    /// few].
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver"))]
    pub choose_start: Option<bool>,
    /// Analytical first step [true with --nfe on a denoising model].
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver"))]
    pub afs: Option<bool>,
    /// Window: slopes a step may weigh [3].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver"))]
    pub order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file [ab].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE", help_heading = "Solver"))]
    pub init: Option<String>,
    /// How --nfe counts calls that could be made side by side, as epd's: each, or once as its authors do [each].
    #[cfg_attr(feature = "clap", arg(long, value_name = "each|once", value_parser = one_of::<CountParallel>(&["each", "once"]), help_heading = "Solver"))]
    pub count_parallel: Option<CountParallel>,
    /// Teacher's solver [ipndm].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Teacher"))]
    pub teacher: Option<String>,
    /// Teacher's order [the method's highest].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub teacher_order: Option<usize>,
    /// Teacher's network calls [35].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub teacher_nfe: Option<usize>,
    /// Teacher's intervals instead of network calls.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub teacher_steps: Option<usize>,
    /// Whose rule the teacher's grid follows: the student's, or the model's own [student; model where the student's
    /// grid is chosen].
    #[cfg_attr(feature = "clap", arg(long, value_name = "student|model", value_parser = one_of::<TeacherGrid>(&["student", "model"]), help_heading = "Teacher"))]
    pub teacher_schedule: Option<TeacherGrid>,
    /// Whether the teacher's result is denoised to zero [as the method's authors have it: dyweight true].
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL", help_heading = "Teacher"))]
    pub teacher_denoise: Option<bool>,
    /// What is compared: endpoint or path [endpoint].
    #[cfg_attr(feature = "clap", arg(long, value_name = "endpoint|path", help_heading = "Teacher"))]
    pub supervision: Option<String>,
    /// Teacher steps per student step under path supervision [5]; for epd and amed the points between them [epd 3, amed
    /// 1, amed-plugin 2].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub substeps: Option<usize>,
    /// l2, l1, huber, features (of the embedded network), inception, clip, or frechet (of all samples, to real images)
    /// [l2].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Loss"))]
    pub loss: Option<String>,
    /// Features of the losses features and frechet: fashion, fashion-judge or pixels, or several with commas between;
    /// what is not named judges a second stage [fashion].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Loss"))]
    pub features: Option<String>,
    /// Weights of Inception-v3 for the loss inception.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Loss"))]
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid [edm].
    #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", help_heading = "Loss"))]
    pub resize: Option<String>,
    /// CLIP model for the loss clip.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE|DIR", help_heading = "Loss"))]
    pub clip_model: Option<PathBuf>,
    /// The loss frechet's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub joint: JointOptions,
    /// Where the Huber loss turns linear [0.1].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Loss"))]
    pub huber_delta: Option<f64>,
    /// Iterations [625; 1500 for a closed form; half as many of newton; 16 of frechet; at most 10 of gauss-newton, 8
    /// for a closed form].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub iters: Option<usize>,
    /// Pairs per iteration and accumulation round [16; 64 for a closed form and of frechet].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub batch: Option<usize>,
    /// Accumulation rounds per iteration [1].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub accumulate: Option<usize>,
    /// Training pairs, visited again and again [every pair once; 50 for a relaxed objective; 48 of gauss-newton].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub pairs: Option<usize>,
    /// Samples per network call; changes memory, not results [the batch].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub micro_batch: Option<usize>,
    /// Learning rate [0.03 for 3 calls, less for more; 0.5 of newton].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub lr: Option<f64>,
    /// Fraction of the iterations that warm up [0.1].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub warm_up: Option<f64>,
    /// How the rate goes: warm-up (then a cosine), cosine (to 0.01) or constant [the method's].
    #[serde(rename = "lr-rule", alias = "rate")]
    #[cfg_attr(feature = "clap", arg(long = "lr-rule", alias = "rate", value_name = "warm-up|cosine|constant", value_parser = one_of::<RateRule>(&["warm-up", "cosine", "constant"]), help_heading = "Optimisation"))]
    pub rate: Option<RateRule>,
    /// adam, adamw, rmsprop, sgd, lion, newton (second order: learns more in the same time), or gauss-newton (few
    /// pairs, no gradients) [adam].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = Optimiser::parser(), help_heading = "Optimisation"))]
    pub optimiser: Option<Optimiser>,
    /// Weight decay of adamw and lion [0.01].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub weight_decay: Option<f64>,
    /// Largest gradient norm [1].
    #[serde(rename = "clip-gradient", alias = "clip")]
    #[cfg_attr(feature = "clap", arg(long = "clip-gradient", alias = "clip", help_heading = "Optimisation"))]
    pub clip: Option<f64>,
    /// Seed of the training pairs [0].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub seed: Option<u64>,
    /// What is kept for the gradient: keep or recompute [recompute].
    #[cfg_attr(feature = "clap", arg(long, value_name = "keep|recompute", value_parser = one_of::<Memory>(&["keep", "recompute"]), help_heading = "Optimisation"))]
    pub memory: Option<Memory>,
    /// Validation pairs, of other seeds [64; 1024 for a closed form; 16 of gauss-newton].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Validation"))]
    pub validation: Option<usize>,
    /// Iterations between validations [a fortieth of the run].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Validation"))]
    pub validate_every: Option<usize>,
    /// Stop after this many validations without improvement [2 of gauss-newton].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Validation"))]
    pub patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Validation"))]
    pub plain: Option<bool>,
    /// Class by number or name (sneaker), or 'none' [drawn for each sample].
    #[cfg_attr(feature = "clap", arg(long, value_name = "N|NAME|none", help_heading = "Conditions"))]
    pub class: Option<ClassName>,
    /// File of prompts, one per line; sample i shows line i, training pairs draw one.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FILE", conflicts_with = "class", help_heading = "Conditions")
    )]
    pub prompts: Option<PathBuf>,
    /// What guidance leads away from [the empty text].
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT", help_heading = "Conditions"))]
    pub negative: Option<String>,
    /// Classifier-free guidance; every evaluation then costs two calls.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SCALE", allow_negative_numbers = true, help_heading = "Conditions")
    )]
    pub guidance: Option<f64>,
    /// Unit noise from the tensor 'noise' [iters,batch,c,h,w] of a safetensors file.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Optimisation"))]
    pub noise: Option<PathBuf>,
    /// DyWeight's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub dyweight: DyWeightOptions,
    /// The solver that a method is built around.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub base: BaseOptions,
    /// LD3's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub ld3: Ld3Options,
    /// Those of methods with points inside their steps.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub points: PointOptions,
    /// Those of methods whose objective can be relaxed.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub relax: RelaxOptions,
    /// GITS's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub gits: GitsOptions,
    /// DSS's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub dss: DssOptions,
}

impl TrainSpec {
    /// True if nothing but the reference algorithm is wanted.
    pub fn is_plain(&self) -> bool {
        self.plain.unwrap_or(false)
    }

    /// The method's name.
    pub fn method_name(&self) -> &str {
        self.method.as_deref().unwrap_or("dyweight")
    }

    /// How its method is taught.
    pub fn taught(&self) -> Result<&'static dyn Method> {
        method::find(self.method_name())
    }

    /// True if no gradient is taken.
    pub fn is_gauss_newton(&self) -> bool {
        self.optimiser == Some(Optimiser::GaussNewton)
    }

    /// True if few pairs are used well: no gradients, and a start that is chosen.
    pub(crate) fn is_few(&self) -> bool {
        self.recipe.map_or(self.is_gauss_newton() || self.leaves_it_open(), |recipe| recipe == TrainRecipe::Few)
    }

    /// True if nothing is said that only descent by gradients has, of a method whose authors recommend nothing else.
    fn leaves_it_open(&self) -> bool {
        let of_descent = self.batch.is_some()
            || self.accumulate.is_some()
            || self.lr.is_some()
            || self.rate.is_some()
            || self.warm_up.is_some()
            || self.weight_decay.is_some()
            || self.clip.is_some()
            || self.validate_every.is_some()
            || self.optimiser.is_some();
        let squares = self.loss.as_deref().is_none_or(|loss| !["l1", "frechet"].contains(&loss));
        let wider = self.dyweight.span.is_some() || self.init.is_some();
        let whole = self.supervision.as_deref().is_none_or(|s| s == "endpoint") && self.noise.is_none();
        self.taught().is_ok_and(|method| method.learns_from_few())
            && !self.is_plain()
            && !of_descent
            && squares
            && !wider
            && whole
    }

    /// True if something of the start is left to choose: never of a solver that is given, nor where it would change
    /// what is compared.
    pub fn is_open(&self, budget: Budget, schedule: &ScheduleSpec) -> bool {
        let at_the_end = self.supervision.as_deref().is_none_or(|s| s == "endpoint");
        let chosen_for = self.taught().is_ok_and(|method| method.learns_from_few())
            && self.init.is_none()
            && at_the_end
            && !self.is_plain();
        let left = self.afs.is_none() && matches!(budget, Budget::Nfe(_)) || self.order.is_none();
        self.choose_start.unwrap_or(self.is_few()) && chosen_for && (left || !schedule.names_a_rule())
    }

    /// The options with the rule of descent that a recipe of few pairs has, or a second stage.
    pub fn with_recipe(&self, method: &dyn Method) -> Self {
        let is_few = self.is_few() && method.learns_by_gradients();
        let second_stage = self.loss.as_deref() == Some("frechet") && self.method_name() == "dyweight";
        if second_stage && self.recipe.is_none() && self.optimiser.is_none_or(|rule| rule == Optimiser::Newton) {
            let [iters, batch, every] = SECOND_STAGE;
            return Self {
                optimiser: Some(Optimiser::Newton),
                iters: self.iters.or(Some(iters)),
                batch: self.batch.or(Some(batch)),
                validate_every: self.validate_every.or(Some(every)),
                ..self.clone()
            };
        }
        Self { optimiser: self.optimiser.or(is_few.then_some(Optimiser::GaussNewton)), ..self.clone() }
    }

    /// The options with those of the method's recipe. Of a recipe for gradients only what is compared is left.
    pub fn with_defaults_of(&self, method: &dyn Method) -> Result<Self> {
        if !self.is_gauss_newton() {
            return Ok(method.with_defaults(self.clone()));
        }
        self.refuse_descent()?;
        let mut still = self.clone();
        still.relax.relax = Some(false);
        let filled = method.with_defaults(still);
        let (batch, lr, rate, relax) = (None, None, None, self.relax.clone());
        Ok(Self { batch, lr, rate, relax, iters: self.iters, validation: self.validation, ..filled })
    }

    /// An error if an option is given that whole solves do not have.
    fn refuse_descent(&self) -> Result<()> {
        let given = [
            ("batch", self.batch.is_some(), "every iteration takes all pairs: give `pairs`, or `micro-batch`"),
            ("accumulate", self.accumulate.is_some(), "every iteration takes all pairs: give `pairs`"),
            ("lr", self.lr.is_some(), "its steps are damped, and the damping is found by validation"),
            ("lr-rule", self.rate.is_some(), "its steps are damped, and the damping is found by validation"),
            ("warm-up", self.warm_up.is_some(), "its steps are damped, and the damping is found by validation"),
            ("weight-decay", self.weight_decay.is_some(), "its steps are damped instead"),
            ("clip-gradient", self.clip.is_some(), "its steps are damped instead"),
            ("validate-every", self.validate_every.is_some(), "every iteration is validated"),
            ("relax", self.relax.relax == Some(true), "moving noise needs gradients"),
        ];
        let Some((option, _, why)) = given.iter().find(|(_, given, _)| *given) else { return Ok(()) };
        Err(Error::no_effect(option, format!("with `optimiser = gauss-newton` {why}")))
    }

    /// A method's comparison, on whole solves.
    pub fn taught_whole(&self, taught: Teaching) -> Result<Teaching> {
        let step_by_step = taught.stepwise.is_some() || taught.near.is_some();
        if !(self.is_gauss_newton() && step_by_step) {
            return Ok(taught);
        }
        Ok(Teaching { supervision: self.supervised()?, stepwise: None, near: None, halved: false })
    }

    /// Which states of the teacher are compared.
    pub fn supervised(&self) -> Result<Supervision> {
        match self.supervision.as_deref().unwrap_or("endpoint") {
            "endpoint" => Ok(Supervision::Endpoint),
            "path" => Ok(Supervision::Path { stride: positive("substeps", self.substeps.unwrap_or(5))? }),
            other => Err(Error::unknown_name("supervision", other, ["endpoint", "path"])),
        }
    }
}

/// Options that had other names: the old name, which is still understood, and the one that tells them from others.
pub const RENAMED: &[(&str, &str)] = &[
    ("rate", "lr-rule"),
    ("clip", "clip-gradient"),
    ("mode", "time-mode"),
    ("window", "ld3-window"),
    ("lr2", "times-lr"),
    ("points", "epd-points"),
    ("last-direction-one", "epd-last-direction-one"),
    ("updates", "epd-updates"),
    ("cost", "gits-cost"),
    ("factor", "gits-factor"),
    ("samples", "gits-samples"),
    ("end-weight", "dss-end-weight"),
];

/// How much of what, where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainRecipe {
    /// Few pairs, no gradients, the best of many starts.
    Few,
    /// The paper's: many pairs, Adam, one start.
    Paper,
}

/// Whose rule the teacher's grid follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherGrid {
    /// The student's.
    #[default]
    Student,
    /// The model's own, whatever the student's: solvers on different grids then have the same teacher.
    Model,
}

/// Iterations of a second stage, samples of which each takes derivatives, and iterations between validations.
const SECOND_STAGE: [usize; 3] = [16, 64, 4];

/// Options of the loss `frechet`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct JointOptions {
    /// Statistics of real images for the loss frechet: fashion or an .npz file [fashion].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE", help_heading = "Loss"))]
    pub reference: Option<String>,
    /// Samples that make the moments of the loss frechet, others in every iteration; --batch of them take derivatives
    /// [800].
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Loss"))]
    pub moments: Option<usize>,
}

impl JointOptions {
    /// Samples that make the moments.
    pub fn samples(&self) -> Result<usize> {
        match self.moments.unwrap_or(800) {
            n if (2..=1_000_000).contains(&n) => Ok(n),
            n => Err(Error::bad_value("moments", n, "must lie between 2 and 1000000")),
        }
    }
}

/// An enumeration by the names it has in files.
#[cfg(feature = "clap")]
pub(crate) fn one_of<T: serde::de::DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl clap::builder::TypedValueParser<Value = T> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let read = |name: String| serde_json::from_value::<T>(serde_json::Value::String(name));
    PossibleValuesParser::new(names).try_map(read)
}

/// A class by its number, or by its name in a model whose classes have names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[serde(expecting = "a class is a number or a name")]
pub enum ClassName {
    /// Its number.
    Number(usize),
    /// Its name, which whoever knows the model's names makes a number of.
    Name(String),
}

impl ClassName {
    /// True if no class is asked for, of a model that may have some.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Name(name) if name == "none")
    }

    /// The number; a name is none.
    pub fn number(&self) -> Result<usize> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => Err(Error::bad_value("class", name, "must be a class number")),
        }
    }
}

impl From<&str> for ClassName {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.into()), Self::Number)
    }
}

impl std::fmt::Display for ClassName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A count of at least one, of an option.
pub fn positive(name: &'static str, value: usize) -> Result<usize> {
    if (1..=100_000_000).contains(&value) {
        return Ok(value);
    }
    Err(Error::bad_value(name, value, "must lie between 1 and 100000000"))
}

/// A number of 0 or above, of an option.
pub fn not_negative(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error::bad_value(name, value, "must be a finite number, 0 or above"))
}

/// A number above a bound, of an option.
pub fn finite_above(name: &'static str, value: f64, bound: f64) -> Result<f64> {
    if value.is_finite() && value > bound {
        return Ok(value);
    }
    Err(Error::bad_value(name, value, format!("must be a finite number above {bound}")))
}
