//! The options of training: the one list, for the command line, a TOML file and other programs. What a method alone knows stands beside it in
//! `methods/`.

mod plan;
mod teacher;

pub use plan::{Defaults, TrainPlan};

use crate::Optimiser;
use crate::joint::JointOptions;
use crate::methods::any_budget::AnyBudgetOptions;
use crate::methods::base::BaseOptions;
use crate::methods::dss::DssOptions;
use crate::methods::dyweight::DyWeightOptions;
use crate::methods::gits::GitsOptions;
use crate::methods::ld3::Ld3Options;
use crate::methods::points::{CountParallel, PointOptions};
use crate::methods::relaxed::RelaxOptions;
use crate::rate::RateRule;
use dyweight_core::error::{Error, Result};
use dyweight_core::trail::Memory;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a user says about training: the one list of options, for the command line, a TOML file and other programs. What is left out is
/// decided here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct TrainSpec {
    /// What is learned.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME",
            help_heading = "Solver",
            help = "What is learned: see 'dyweight list methods' [dyweight]"
        )
    )]
    pub method: Option<String>,
    /// Analytical first step.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Analytical first step [true with --nfe on a denoising model]"))]
    pub afs: Option<bool>,
    /// Window: slopes a step may weigh.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver", help = "Window: slopes a step may weigh [3]"))]
    pub order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME|FILE",
            help_heading = "Solver",
            help = "Start: ab, euler, uniform, perturbed, or a solver file [ab]"
        )
    )]
    pub init: Option<String>,
    /// How a budget counts calls that could be made side by side.
    #[cfg_attr(feature = "clap", arg(long, value_name = "each|once", value_parser = one_of::<CountParallel>(&["each", "once"]), help_heading = "Solver", help = "How --nfe counts calls that could be made side by side, as epd's: each, or once as its authors do [each]"))]
    pub count_parallel: Option<CountParallel>,
    /// Teacher's solver.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NAME", help_heading = "Teacher", help = "Teacher's solver [ipndm]")
    )]
    pub teacher: Option<String>,
    /// Teacher's order.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher", help = "Teacher's order [the method's highest]"))]
    pub teacher_order: Option<usize>,
    /// Teacher's network calls.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher", help = "Teacher's network calls [35]"))]
    pub teacher_nfe: Option<usize>,
    /// Teacher's intervals instead of network calls.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Teacher", help = "Teacher's intervals instead of network calls")
    )]
    pub teacher_steps: Option<usize>,
    /// Whether the teacher's result is denoised to zero.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "BOOL",
            help_heading = "Teacher",
            help = "Whether the teacher's result is denoised to zero [as the method's authors have it: dyweight true]"
        )
    )]
    pub teacher_denoise: Option<bool>,
    /// What is compared: endpoint or path.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "endpoint|path",
            help_heading = "Teacher",
            help = "What is compared: endpoint or path [endpoint]"
        )
    )]
    pub supervision: Option<String>,
    /// Teacher steps per student step under path supervision.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Teacher",
            help = "Teacher steps per student step under path supervision [5]; for epd and amed the points between them [epd 3, amed 1, amed-plugin 2]"
        )
    )]
    pub substeps: Option<usize>,
    /// l2, l1, huber, features (of the embedded network), inception, clip, or frechet.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME",
            help_heading = "Optimisation",
            help = "l2, l1, huber, features (of the embedded network), inception, clip, or frechet (of all samples, to real images) [l2]"
        )
    )]
    pub loss: Option<String>,
    /// Weights of Inception-v3 for the loss inception.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "FILE",
            help_heading = "Optimisation",
            help = "Weights of Inception-v3 for the loss inception"
        )
    )]
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "RULE",
            help_heading = "Optimisation",
            help = "How Inception sees an image: edm or pytorch-fid [edm]"
        )
    )]
    pub resize: Option<String>,
    /// CLIP model for the loss clip, a file or a folder.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FILE|DIR", help_heading = "Optimisation", help = "CLIP model for the loss clip")
    )]
    pub clip_model: Option<PathBuf>,
    /// The loss frechet's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub joint: JointOptions,
    /// Where the Huber loss turns linear.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Where the Huber loss turns linear [0.1]")
    )]
    pub huber_delta: Option<f64>,
    /// Iterations.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Iterations [625; 1500 for a closed form]")
    )]
    pub iters: Option<usize>,
    /// Pairs per iteration and accumulation round.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Optimisation",
            help = "Pairs per iteration and accumulation round [16; 64 for a closed form]"
        )
    )]
    pub batch: Option<usize>,
    /// Accumulation rounds per iteration.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Accumulation rounds per iteration [1]")
    )]
    pub accumulate: Option<usize>,
    /// Training pairs, visited again and again.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Optimisation",
            help = "Training pairs, visited again and again [every pair once; 50 for a relaxed objective]"
        )
    )]
    pub pairs: Option<usize>,
    /// Samples per network call; changes memory, not results.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Optimisation",
            help = "Samples per network call; changes memory, not results [the batch]"
        )
    )]
    pub micro_batch: Option<usize>,
    /// Learning rate.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Learning rate [0.03 for 3 calls, less for more]")
    )]
    pub lr: Option<f64>,
    /// Fraction of the iterations that warm up.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Fraction of the iterations that warm up [0.1]")
    )]
    pub warm_up: Option<f64>,
    /// How the rate goes: warm-up, cosine or constant.
    #[cfg_attr(feature = "clap", arg(long, value_name = "warm-up|cosine|constant", value_parser = one_of::<RateRule>(&["warm-up", "cosine", "constant"]), help_heading = "Optimisation", help = "How the rate goes: warm-up (then a cosine), cosine (to 0.01) or constant [the method's]"))]
    pub rate: Option<RateRule>,
    /// adam, adamw, rmsprop, sgd or lion.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = one_of::<Optimiser>(&["adam", "adamw", "rmsprop", "sgd", "lion"]), help_heading = "Optimisation", help = "adam, adamw, rmsprop, sgd or lion [adam]"))]
    pub optimiser: Option<Optimiser>,
    /// Weight decay of adamw and lion.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Weight decay of adamw and lion [0.01]")
    )]
    pub weight_decay: Option<f64>,
    /// Largest gradient norm.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation", help = "Largest gradient norm [1]"))]
    pub clip: Option<f64>,
    /// Seed of the training pairs.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation", help = "Seed of the training pairs [0]"))]
    pub seed: Option<u64>,
    /// What is kept for the gradient: keep or recompute.
    #[cfg_attr(feature = "clap", arg(long, value_name = "keep|recompute", value_parser = one_of::<Memory>(&["keep", "recompute"]), help_heading = "Optimisation", help = "What is kept for the gradient: keep or recompute [recompute]"))]
    pub memory: Option<Memory>,
    /// Validation pairs, of other seeds.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Validation pairs, of other seeds [64; 1024 for a closed form]")
    )]
    pub validation: Option<usize>,
    /// Iterations between validations.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Iterations between validations [a fortieth of the run]")
    )]
    pub validate_every: Option<usize>,
    /// Stop after this many validations without improvement.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Stop after this many validations without improvement")
    )]
    pub patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Validation", help = "The reference algorithm and nothing else: no validation, roll-back or early stop"))]
    pub plain: Option<bool>,
    /// Class to train for.
    #[cfg_attr(feature = "clap", arg(long, help = "Class to train for [drawn anew for every pair]"))]
    pub class: Option<usize>,
    /// File of prompts.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FILE", help = "File of prompts, one per line; every pair draws one")
    )]
    pub prompts: Option<PathBuf>,
    /// What guidance leads away from.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TEXT", help = "What guidance leads away from [the empty text]")
    )]
    pub negative: Option<String>,
    /// Classifier-free guidance.
    #[cfg_attr(feature = "clap", arg(long, help = "Classifier-free guidance"))]
    pub guidance: Option<f64>,
    /// Unit noise from the tensor 'noise'.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "FILE",
            help = "Unit noise from the tensor 'noise' [iters,batch,c,h,w] of a safetensors file"
        )
    )]
    pub noise: Option<PathBuf>,
    /// DyWeight's own.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub dyweight: DyWeightOptions,
    /// Those of a solver for any budget.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub any: AnyBudgetOptions,
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

/// An enumeration by the names it has in files.
#[cfg(feature = "clap")]
pub(crate) fn one_of<T: serde::de::DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl clap::builder::TypedValueParser<Value = T> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let read = |name: String| serde_json::from_value::<T>(serde_json::Value::String(name));
    PossibleValuesParser::new(names).try_map(read)
}

pub(crate) fn positive(name: &'static str, value: usize) -> Result<usize> {
    if (1..=100_000_000).contains(&value) {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: "must lie between 1 and 100000000".into() })
}

pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: "must be a finite number, 0 or above".into() })
}

pub(crate) fn finite_above(name: &'static str, value: f64, bound: f64) -> Result<f64> {
    if value.is_finite() && value > bound {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: format!("must be a finite number above {bound}") })
}
