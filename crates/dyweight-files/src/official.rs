//! The coefficient files released with DyWeight: 40 pickles and 3 torch archives (FLUX).
//!
//! ```text
//! pickle  {"predictor": object, "loss_fn": object}
//!                                           predictor: hybrid_weights [S,S], t_scale, mask; loss_fn: schedule, teacher
//! FLUX    {window_size, dyweight_weights_raw [S,S], dyweight_t_scales [S], …}
//! ```
//!
//! Column j of a weight row multiplies the slope of step j. S steps; with AFS the first step calls no network and has
//! no time scale. Numbers are f32 in the files, widened here.

use super::bytes::SharedBytes;
use super::network::Object;
use super::pickle::{self, Graph, Id};
use super::sniff::{Format, expect, sniff};
use super::stored::StoredTensor;
use super::torch::storage::Externals;
use super::torch::tensor::TensorReader;
use super::torch::{TorchFile, walk};
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// The released files have 4 kB.
const MAX_FILE: u64 = 16 << 20;

/// Learned coefficients as released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfficialCoefficients {
    /// Data set, as the authors spell it.
    pub dataset: Option<String>,
    /// Network evaluations as the paper counts them: guidance with two networks counts twice.
    pub nfe: usize,
    /// Calls of the denoiser.
    pub calls: usize,
    /// Steps: intervals of the grid.
    pub steps: usize,
    /// First step analytical, without a network call.
    pub afs: bool,
    /// Slopes a step may combine, the current one included.
    pub window: usize,
    /// Time grid.
    pub schedule: ReleasedSchedule,
    /// Guidance the coefficients were trained with.
    pub guidance: ReleasedGuidance,
    /// Row i: weights of step i over the absolute steps 0..steps; zero outside the window.
    pub weights: Vec<Vec<f64>>,
    /// Factors on the network's time, one per network call.
    pub time_scale: Vec<f64>,
    /// How they were trained, as far as the file says.
    pub training: TrainingFacts,
}

/// Time grid of released coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedSchedule {
    /// `polynomial`, `discrete` or `flux_shift`.
    pub kind: String,
    /// Exponent, where the kind has one.
    pub rho: Option<f64>,
}

/// Guidance of released coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedGuidance {
    /// `cfg`, `uncond` or `distilled`.
    pub kind: Option<String>,
    /// Scale.
    pub rate: f64,
}

/// Training metadata of released coefficients. Re-packaged files carry constructor defaults here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFacts {
    /// Teacher's solver.
    pub teacher: Option<String>,
    /// Points of the teacher's grid.
    pub teacher_points: Option<usize>,
    /// Loss.
    pub loss: Option<String>,
    /// Teacher's order.
    pub max_order: Option<usize>,
}

impl OfficialCoefficients {
    /// Reads a released file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = super::read_file(path, MAX_FILE)?;
        Self::parse(bytes).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of a released file.
    pub fn parse(file: SharedBytes) -> Result<Self, Malformed> {
        let allowed = [Format::Pickle, Format::TorchZip, Format::TorchLegacy, Format::Zip];
        expect(&file, "a pickle or torch file of coefficients", &allowed)?;
        if sniff(&file) == Format::Pickle { from_pickle(&file) } else { from_torch(file) }
    }

    /// The counts and lengths must go together, and the numbers be numbers.
    fn check(self) -> Result<Self, Malformed> {
        if self.window == 0 {
            return Err(Malformed::Inconsistent { problem: "a window of 0 steps combines nothing".into() });
        }
        if self.time_scale.len() != self.calls {
            let problem = format!("{} time scales for {} network calls", self.time_scale.len(), self.calls);
            return Err(Malformed::Inconsistent { problem });
        }
        let numbers = self.weights.iter().flatten().chain(&self.time_scale);
        match numbers.into_iter().find(|v| !v.is_finite()) {
            Some(value) => Err(Malformed::Inconsistent { problem: format!("a coefficient is {value}") }),
            None => Ok(self),
        }
    }
}

fn from_pickle(file: &SharedBytes) -> Result<OfficialCoefficients, Malformed> {
    let graph = pickle::parse_all(file)?;
    let predictor = graph.need(graph.root(), "predictor")?;
    let options = Fields(vec![options(&graph, "loss_fn", file)?, options(&graph, "predictor", file)?]);
    let reader = TensorReader::new(&graph, file, Externals::Inside, file.len());
    let tensors = walk::collect(reader, predictor)?;
    let tensor = |name: &str| {
        let found = tensors.iter().find(|(n, _)| n == name).map(|(_, t)| t);
        found.ok_or_else(|| Malformed::Missing { name: name.into() })
    };
    let mut weights = square(tensor("hybrid_weights")?)?;
    let mask = square(tensor("mask")?)?;
    if mask.len() != weights.len() {
        return Err(Malformed::Inconsistent { problem: "weights and mask differ in size".into() });
    }
    for (weight, mask) in weights.iter_mut().flatten().zip(mask.iter().flatten()) {
        *weight *= mask;
    }
    let (steps, afs) = (weights.len(), options.flag("afs")?);
    if options.count("num_steps")? != steps + 1 {
        return Err(Malformed::Inconsistent { problem: "num_steps does not fit the weights".into() });
    }
    let kind = options.text("guidance_type")?;
    let calls = steps - usize::from(afs);
    let coefficients = OfficialCoefficients {
        dataset: options.text("dataset_name")?,
        nfe: if kind.as_deref() == Some("cfg") { 2 * calls } else { calls },
        calls,
        steps,
        afs,
        window: options.optional_count("max_history_steps")?.unwrap_or(steps),
        schedule: options.schedule()?,
        guidance: ReleasedGuidance { kind, rate: options.number("guidance_rate")?.unwrap_or(0.0) },
        weights,
        // Trained without time scaling, there are none.
        time_scale: tensor("t_scale").map_or_else(|_| vec![1.0; calls], StoredTensor::to_f64),
        training: options.training()?,
    };
    coefficients.check()
}

/// Guidance, schedule and data set of the three FLUX files are not in them: the authors' configuration says them.
fn from_torch(file: SharedBytes) -> Result<OfficialCoefficients, Malformed> {
    let file = TorchFile::parse(file)?;
    let mut weights = square(file.tensor("dyweight_weights_raw")?)?;
    let window = Fields(vec![file.values.clone()]).count("window_size")?;
    for (i, row) in weights.iter_mut().enumerate() {
        let outside = |j: usize| j > i || j + window <= i;
        row.iter_mut().enumerate().filter(|(j, _)| outside(*j)).for_each(|(_, weight)| *weight = 0.0);
    }
    let steps = weights.len();
    let coefficients = OfficialCoefficients {
        dataset: Some("flux.1-dev/ms_coco".into()),
        nfe: steps,
        calls: steps,
        steps,
        afs: false,
        window,
        schedule: ReleasedSchedule { kind: "flux_shift".into(), rho: None },
        guidance: ReleasedGuidance { kind: Some("distilled".into()), rate: 3.5 },
        weights,
        time_scale: file.tensor("dyweight_t_scales")?.to_f64(),
        training: TrainingFacts::default(),
    };
    coefficients.check()
}

/// Rows of a square matrix with at least one.
fn square(tensor: &StoredTensor) -> Result<Vec<Vec<f64>>, Malformed> {
    match tensor.shape() {
        [rows, columns] if rows == columns && *rows > 0 => {
            Ok(tensor.to_f64().chunks_exact(*columns).map(<[f64]>::to_vec).collect())
        }
        shape => Err(Malformed::Inconsistent { problem: format!("weights of shape {shape:?} are not square") }),
    }
}

/// Plain attributes of one of the two objects; none if it is not there.
fn options(graph: &Graph<'_>, name: &str, file: &[u8]) -> Result<Map<String, Value>, Malformed> {
    match graph.get(graph.root(), name) {
        Some(id) => attributes(graph, name, id, file),
        None => Ok(Map::new()),
    }
}

fn attributes(graph: &Graph<'_>, name: &str, id: Id, file: &[u8]) -> Result<Map<String, Value>, Malformed> {
    let object = Object::read(graph, name, id)?;
    let mut all = pickle::fields(graph, object.state, file)?;
    // Arguments that the object did not keep as attributes.
    if let Some(Value::Object(arguments)) = all.remove("_init_kwargs") {
        for (key, value) in arguments {
            all.entry(key).or_insert(value);
        }
    }
    Ok(all)
}

/// Named values from several places; the first place that has one counts.
struct Fields(Vec<Map<String, Value>>);

impl Fields {
    fn find(&self, name: &str) -> Option<&Value> {
        self.0.iter().find_map(|map| map.get(name)).filter(|value| !value.is_null())
    }

    fn optional<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Malformed> {
        let wrong = || Malformed::Type { name: name.into(), expected, found: "something else" };
        self.find(name).map(|value| read(value).ok_or_else(wrong)).transpose()
    }

    fn text(&self, name: &str) -> Result<Option<String>, Malformed> {
        self.optional(name, "a text", |value| value.as_str().map(String::from))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Malformed> {
        self.optional(name, "a number", Value::as_f64)
    }

    fn optional_count(&self, name: &str) -> Result<Option<usize>, Malformed> {
        self.optional(name, "a count", |value| value.as_u64().and_then(|v| usize::try_from(v).ok()))
    }

    fn count(&self, name: &str) -> Result<usize, Malformed> {
        self.optional_count(name)?.ok_or_else(|| Malformed::Missing { name: name.into() })
    }

    fn flag(&self, name: &str) -> Result<bool, Malformed> {
        let flag = self.optional(name, "a truth value", Value::as_bool)?;
        flag.ok_or_else(|| Malformed::Missing { name: name.into() })
    }

    fn schedule(&self) -> Result<ReleasedSchedule, Malformed> {
        let missing = || Malformed::Missing { name: "schedule_type".into() };
        Ok(ReleasedSchedule {
            kind: self.text("schedule_type")?.ok_or_else(missing)?,
            rho: self.number("schedule_rho")?,
        })
    }

    fn training(&self) -> Result<TrainingFacts, Malformed> {
        // The teacher is mentioned as a function: solvers.heun_sampler.
        let teacher = self.text("solver_tea")?.map(|name| {
            let name = name.strip_prefix("solvers.").unwrap_or(&name);
            name.strip_suffix("_sampler").unwrap_or(name).to_string()
        });
        Ok(TrainingFacts {
            teacher,
            teacher_points: self.optional_count("teacher_steps")?,
            loss: self.text("loss_type")?,
            max_order: self.optional_count("max_order")?,
        })
    }
}
