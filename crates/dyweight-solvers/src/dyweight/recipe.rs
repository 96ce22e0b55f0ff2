//! DyWeight: its options, where it starts, and its recipe.

use super::{LearnedWeights, ScaleMode};
use crate::Weights;
use crate::learnable::Learnable;
use crate::learned::Frame;
use crate::method::{DEFAULT_WINDOW, Method, Open, Start, other_method};
use crate::recipe::{Common, Optimiser, Phase};
use crate::solver_file::Asked;
use crate::span::{On, SpanSpec};
use crate::span::{Span, fitted_rows};
use crate::spec::Budget;
use crate::spec::train::TrainSpec;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use dyweight_core::solver::{Initial, Rows, Scales};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// DyWeight's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct DyWeightOptions {
    /// Time scales: free or bounded to (0.5, 1.5) [free].
    #[cfg_attr(feature = "clap", arg(long, value_name = "free|bounded", value_parser = crate::spec::one_of::<ScaleMode>(&["free", "bounded"]), help_heading = "DyWeight"))]
    pub scale: Option<ScaleMode>,
    /// Ablation: time is not shifted.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "DyWeight"))]
    pub no_time_shift: Option<bool>,
    /// Ablation: no time scales.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "DyWeight"))]
    pub no_time_scale: Option<bool>,
    /// Wider span at no further call, an experiment: state, bands, operator:3 or :5 (and :mixed), sample, embedding,
    /// with commas between, or wide (some of these up to 3 calls) [none].
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", help_heading = "DyWeight"))]
    pub span: Option<SpanSpec>,
}

/// The method.
pub struct DyWeightMethod;

impl Method for DyWeightMethod {
    fn learns_from_few(&self) -> bool {
        true
    }

    fn named_starts(&self) -> &'static [&'static str] {
        &STARTS
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs", "order", "scale", "no-time-shift", "no-time-scale", "span", "supervision", "substeps"]
    }

    fn default_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    /// Rates that work: lower for more steps, as the paper has it (1e-3 … 5e-2).
    fn default_rate(&self, steps: usize) -> f64 {
        match steps {
            0..=4 => 3e-2,
            5 | 6 => 2e-2,
            _ => 1e-2,
        }
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        let begins = beginning(spec, frame, open)?;
        let widths: Vec<usize> = begins.rows.iter().map(Vec::len).collect();
        let window = widths.iter().copied().max().unwrap_or(1);
        let mode = match spec.dyweight.no_time_scale.unwrap_or(false) {
            true => ScaleMode::None,
            false => spec.dyweight.scale.unwrap_or_default(),
        };
        let wanted = spec.dyweight.span.clone().unwrap_or_else(|| SpanSpec::of(&begins.span));
        let calls = widths.len() - usize::from(frame.afs);
        let Frame { shape, feature, embedding, .. } = *frame;
        let on = On { shape, feature, embedding, calls, seed: spec.seed.unwrap_or(0) };
        let wanted = wanted.settled(&on);
        let span = wanted.start(&begins.span, &widths, &on)?;
        let mut settled = TrainSpec { order: Some(window), ..spec.clone() };
        settled.dyweight.no_time_shift = (!begins.time_shift).then_some(true);
        // A file's span that is dropped has to be dropped again when the run is repeated.
        settled.dyweight.span = (!span.is_empty() || !begins.span.is_empty()).then_some(wanted);
        let Beginning { rows, scales, time_shift, .. } = begins;
        let own = widths.iter().sum::<usize>() + if mode == ScaleMode::None { 0 } else { scales.len() };
        let (learnable, mut params) =
            LearnedWeights::of(Weights { time_shift, span, ..Weights::new(rows, scales) }, mode);
        if begins.perturbed {
            perturb(&mut params[..own], 0.05, spec.seed.unwrap_or(0));
        }
        Ok(Start { learnable: Arc::new(learnable), params, window, settled })
    }

    /// Kernels have a group of their own at a third of the rate, since each moves every pixel; layers of a network at a
    /// sixth, which is AMED's rate for few calls; shifts of the embedding at a thirtieth, since a hundred parameters
    /// and more move every block.
    fn phases(&self, _: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        let slower = |name: &str| match name {
            "operator" => 3.0,
            "sample" => 6.0,
            "embedding" => 30.0,
            _ => 1.0,
        };
        let blocks: Vec<&'static str> = learnable.blocks().iter().map(|block| block.name).collect();
        // Second-order descent needs no rates to tell them apart by.
        if common.optimiser == Optimiser::Newton {
            return Ok(vec![common.phase(&blocks)]);
        }
        let (weights, others): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|name| slower(name) == 1.0);
        let mut phase = common.phase(&weights);
        for name in others {
            let common = Common { lr: common.lr / slower(name), ..*common };
            phase.groups.push(common.group(&[name], common.iterations));
        }
        Ok(vec![phase])
    }
}

/// Where a DyWeight solver starts.
struct Beginning {
    rows: Rows,
    scales: Scales,
    time_shift: bool,
    span: Span,
    perturbed: bool,
}

/// Nobody learns more weights; guards against a window that would fill the memory.
const MOST_WEIGHTS: usize = 1 << 20;

/// Weights, scales and time shifting to begin with.
fn beginning(spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Beginning> {
    let (steps, afs) = (frame.grid.steps(), frame.afs);
    let window = spec.order.unwrap_or(DEFAULT_WINDOW);
    if window == 0 {
        return Err(Error::bad_value("order", "0", "a window has at least the current slope: 1 or more"));
    }
    if steps.saturating_mul(window.min(steps)) > MOST_WEIGHTS {
        let expected = format!("{steps} steps of so many weights are more than {MOST_WEIGHTS}");
        return Err(Error::bad_value("order", window, expected));
    }
    let scales = vec![1.0; steps - usize::from(afs)];
    let time_shift = !spec.dyweight.no_time_shift.unwrap_or(false);
    let start = |rows: Initial| {
        let (rows, span) = (rows.rows(steps, window), Span::default());
        Beginning { rows, scales, time_shift, span, perturbed: false }
    };
    Ok(match spec.init.as_deref().unwrap_or("ab") {
        "ab" | "ipndm" => start(Initial::Ab),
        "euler" => start(Initial::Euler),
        "uniform" => start(Initial::Uniform),
        "perturbed" => Beginning { perturbed: true, ..start(Initial::Ab) },
        file => start_from(spec, (file, open), steps, afs)?,
    })
}

/// The starts that have names.
const STARTS: [&str; 5] = ["ab", "ipndm", "euler", "uniform", "perturbed"];

/// The start from a solver file of the same length. What the options leave open the file decides.
fn start_from(spec: &TrainSpec, (file, open): (&str, &Open), steps: usize, afs: bool) -> Result<Beginning> {
    let asked = Asked { budget: Some(Budget::Steps(steps)), guidance: spec.guidance, calls: None };
    let (body, _) = match open(file, Some(asked)) {
        Err(Error::UnknownName { .. }) | Err(Error::Io { .. }) if !file.contains(['.', '/', ':']) => {
            let known = ["ab", "euler", "uniform", "perturbed", "a solver file"];
            return Err(Error::unknown_name("initialisation", file, known));
        }
        other => other?,
    };
    let Some(weights) = body.weights() else {
        return Err(other_method(file, body.method(), "dyweight"));
    };
    if weights.weights.len() != steps {
        let what = format!("steps of {file}, given as the start");
        return Err(Error::Shape { what, expected: vec![steps], found: vec![weights.weights.len()] });
    }
    // Scales belong to the last steps: what is missing or too many is so at the front.
    let wanted = steps - usize::from(afs);
    let missing = wanted.saturating_sub(weights.time_scale.len());
    let first = weights.time_scale.len().saturating_sub(wanted);
    let scales = [vec![1.0; missing], weights.time_scale[first..].to_vec()].concat();
    // A window of another width loses the oldest weights, or gains some that are 0.
    let width = |(i, row): (usize, &Vec<f64>)| spec.order.map_or(row.len(), |window| window.min(i + 1));
    let widths: Vec<usize> = weights.weights.iter().enumerate().map(width).collect();
    let (rows, span) = (fitted_rows(&weights.weights, &widths), weights.span.clone());
    let time_shift = spec.dyweight.no_time_shift.map_or(weights.time_shift, |off| !off);
    Ok(Beginning { rows, scales, time_shift, span, perturbed: false })
}

/// Moves every number by a uniform amount of at most `amount`.
fn perturb(params: &mut [f64], amount: f64, seed: u64) {
    let mut stream = Stream::labelled(seed, "perturbed start");
    params.iter_mut().for_each(|v| *v += amount * (2.0 * stream.uniform() - 1.0));
}
