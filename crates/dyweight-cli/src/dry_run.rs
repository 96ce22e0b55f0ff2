//! What a run would do, and what it would take: `--dry-run`.
//!
//! Calls are counted, not estimated. Time is what a few calls take here and now, in the batches of the run and once the
//! first are over, times their number.
//!
//! ```text
//! memory = process + activations + spare + held
//!
//! process       the most it has held with its model opened and one call made, without that call's activations
//! activations   of the batch: the engine counts those of one sample and of a few, and a batch grows by the difference
//! spare         what the engine keeps of them for reuse: its bound, which is reached after some calls
//! held          what the command keeps beside: states, samples, a teacher's results
//! ```
//!
//! `benches/memory.py` measures how far off that is.

use crate::{machine, ui};
use dyweight::denoiser::{Condition, Cost, Levels};
use dyweight::models::{LoadedModel, engine_memory, forget_peak};
use dyweight::noise::Rng;
use dyweight::sample::in_parts;
use dyweight::train::Work;
use dyweight::{Result, Tensor};
use serde_json::{Value, json};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Made before anything is measured, unless one call takes longer: the first calls of a process are slow.
const WARM_UP: Duration = Duration::from_millis(150);
/// Measured at least this long, unless one call takes longer.
const LONG_ENOUGH: Duration = Duration::from_millis(300);
/// A batch that would take longer is not made whole: calls that long are no faster in large batches.
const LONGEST: f64 = 4.0;

/// The program and its tables.
const PROGRAM: u64 = 18 << 20;
/// What a run touches of the program beside what a forecast does: loops, writers, threads.
const RUNNING: u64 = 3 << 20;

/// Samples by which activations are counted, whatever there was time for: they are of one pass.
const FEW: usize = 4;

/// Bytes of activations, with what the engine keeps of them for reuse ([`dyweight::models::engine_memory`]): a quarter,
/// or up to 64 MB of a small network.
fn with_spare(activations: u64) -> u64 {
    activations + (activations / 4).max((64 << 20).min(activations))
}

/// What a network's gradients need of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gradients {
    /// None are taken.
    #[default]
    None,
    /// Of so many calls at a time.
    Of(usize),
}

/// Bytes of the engine's buffers for a call.
struct Activations {
    /// At once, beside what is kept.
    passing: u64,
    /// For the way back.
    kept: u64,
}

/// What a call costs on this machine.
pub struct Pace<'m> {
    model: &'m LoadedModel,
    condition: Condition,
    noise: Tensor,
    /// Network calls of one evaluation.
    calls: usize,
    /// The most the process has held, without activations, when it had made one call.
    process: u64,
}

impl<'m> Pace<'m> {
    /// Of a model asked for something, `batch` samples at a time.
    pub fn of(
        model: &'m LoadedModel,
        condition: &dyn Fn(Range<usize>) -> Result<Condition>,
        batch: usize,
    ) -> Result<Self> {
        let of = |samples: usize| {
            let condition = condition(0..samples)?;
            let noise = Rng::Native.latents(&(0..samples as u64).collect::<Vec<_>>(), model.model.shape())?;
            let calls = model.model.denoiser(&condition)?.info().calls.max(1);
            Ok(Self { model, condition, noise, calls, process: 0 })
        };
        let one = of(1)?;
        let before = engine_memory().live;
        one.evaluate(false)?;
        let used = engine_memory();
        let taken = used.peak.max(used.live + used.free).saturating_sub(before) as u64;
        let process = machine::peak_bytes().unwrap_or(0).saturating_sub(taken);
        // The first call opens what later ones find.
        let started = Instant::now();
        one.evaluate(false)?;
        let most = (LONGEST / started.elapsed().as_secs_f64().max(1e-9)) as usize;
        Ok(Self { process, ..of(batch.min(most).max(1))? })
    }

    /// Seconds of all this work.
    pub fn seconds(&self, work: Work) -> Result<f64> {
        let mut seconds = 0.0;
        if work.calls > 0 {
            seconds += self.each(false)? * work.calls as f64;
        }
        if work.gradients > 0 {
            seconds += self.each(true)? * work.gradients as f64;
        }
        Ok(seconds)
    }

    /// The most the process will hold while it makes calls of `batch` samples.
    pub fn peak(&self, batch: usize, gradients: Gradients) -> Result<u64> {
        let calls_kept = if let Gradients::Of(calls) = gradients { calls } else { 0 };
        let at_work = |samples: usize| self.model.model.at_work(samples * self.calls).div_ceil(self.calls) as u64;
        let (one, few) = (self.activations(1, calls_kept > 0)?, self.activations(FEW, calls_kept > 0)?);
        let each = few.passing.saturating_sub(one.passing) / (FEW as u64 - 1);
        let passing = one.passing + each * at_work(batch).saturating_sub(1);
        let kept = few.kept / FEW as u64 * (batch * calls_kept) as u64;
        let foreseen = self.process + with_spare(passing + kept);
        Ok(machine::peak_bytes().unwrap_or(0).max(foreseen) + RUNNING)
    }

    /// What the engine holds for an evaluation of so many samples.
    fn activations(&self, samples: usize, with_gradient: bool) -> Result<Activations> {
        let contexts = self.condition.contexts.first().map_or(Vec::new(), |first| vec![first.clone(); samples]);
        let denoiser = self.model.model.denoiser(&Condition { contexts, ..self.condition.clone() })?;
        let (x, level) = (Tensor::concat(&vec![self.noise.slice(0..1); samples])?, self.level());
        forget_peak();
        let before = engine_memory().live;
        let kept = if with_gradient {
            let (value, pullback) = denoiser.with_pullback(&x, &level)?;
            let kept = engine_memory().live - before;
            pullback(&value)?;
            kept
        } else {
            denoiser.predict(&x, &level)?;
            0
        };
        Ok(Activations { passing: (engine_memory().peak - before - kept) as u64, kept: kept as u64 })
    }

    /// Seconds of one call for one sample.
    fn each(&self, with_gradient: bool) -> Result<f64> {
        let begun = Instant::now();
        self.evaluate(with_gradient)?;
        while begun.elapsed() < WARM_UP {
            self.evaluate(with_gradient)?;
        }
        let (started, mut made) = (Instant::now(), 0);
        while started.elapsed() < LONG_ENOUGH {
            self.evaluate(with_gradient)?;
            made += self.noise.samples() * self.calls;
        }
        Ok(started.elapsed().as_secs_f64() / made as f64)
    }

    fn evaluate(&self, with_gradient: bool) -> Result<()> {
        let (model, level) = (&*self.model.model, self.level());
        // Only models without conditions are asked in parts.
        let denoiser = model.denoiser(&self.condition)?;
        let part = |range: Range<usize>| {
            let x = self.noise.slice(range);
            if with_gradient {
                let (value, pullback) = denoiser.with_pullback(&x, &level)?;
                return pullback(&value).map(drop);
            }
            denoiser.predict(&x, &level).map(drop)
        };
        in_parts(model, 0..self.noise.samples(), self.noise.samples(), part).map(drop)
    }

    fn level(&self) -> Levels {
        let (least, most) = self.model.model.sigma_range();
        Levels::One(0.5 * least + 0.5 * most.min(1.0))
    }
}

/// The most a process holds that makes calls of `at_work` samples at once, by what a model says of one.
pub fn peak_by_cost(cost: &Cost, at_work: usize) -> u64 {
    let activations = (cost.activations * at_work as u64).max(cost.decoding);
    machine::peak_bytes().unwrap_or(0).max(cost.resident + PROGRAM) + activations * 5 / 4
}

/// What would be done.
pub struct Forecast {
    /// In one sentence, after "would".
    pub what: String,
    /// Network calls.
    pub work: Work,
    /// Seconds.
    pub seconds: f64,
    /// The most bytes held at once.
    pub peak: u64,
    /// What would be written where.
    pub writes: Vec<String>,
    /// What a call costs, where the model says so, and the operations per second just measured: then no call is made.
    pub known: Option<(Cost, f64)>,
}

impl Forecast {
    /// As JSON.
    fn facts(&self) -> Value {
        let mut facts = json!({
            "would": self.what, "calls": self.work.calls, "gradients": self.work.gradients, "seconds": self.seconds,
            "peak_bytes": self.peak, "threads": rayon::current_num_threads(), "writes": self.writes,
        });
        if let Some((cost, rate)) = &self.known {
            facts["weight_bytes"] = json!(cost.weights);
            facts["resident_bytes"] = json!(cost.resident);
            facts["activation_bytes"] = json!(cost.activations);
            facts["operations_per_call"] = json!(cost.operations);
            facts["operations_per_second"] = json!(rate);
            facts["seconds_per_call"] = json!(cost.operations / rate);
        }
        facts
    }

    /// How long, and by what; how much memory.
    fn costs(&self) -> Vec<String> {
        let (threads, all) = (rayon::current_num_threads(), ui::duration(self.seconds));
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let Some((cost, rate)) = &self.known else {
            let memory = format!("  memory  about {} MB", megabytes(self.peak));
            return vec![format!("  time    about {all} on {threads} threads, by a few calls made now"), memory];
        };
        let (weights, resident, activations) =
            (megabytes(cost.weights), megabytes(cost.resident), megabytes(cost.activations));
        let (call, giga) = (ui::duration(cost.operations / rate), rate / 1e9);
        vec![
            format!(
                "  time    about {all} on {threads} threads; a call {call}, {:.2e} operations at {giga:.0} GFLOP/s",
                cost.operations
            ),
            format!(
                "  memory  about {} MB: {resident} MB of {weights} MB of weights at a time, {activations} MB for each sample \
                 of a batch",
                megabytes(self.peak)
            ),
        ]
    }

    /// Prints it.
    pub fn print(&self, as_json: bool) {
        if as_json {
            return ui::print_json(&self.facts());
        }
        let Work { calls, gradients } = self.work;
        let gradients = if gradients > 0 { format!(", {} more with gradients", grouped(gradients)) } else { "".into() };
        ui::print(&format!("would {}", self.what));
        ui::print(&format!("  calls   {} of the network{gradients}", grouped(calls)));
        self.costs().iter().for_each(|line| ui::print(line));
        for (i, file) in self.writes.iter().enumerate() {
            ui::print(&format!("  {}  {file}", if i == 0 { "writes" } else { "      " }));
        }
        ui::say("nothing was computed or written");
    }
}

/// A count with its thousands set apart.
pub fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let first = digits.len() % 3;
    let mut parts: Vec<&str> = if first > 0 { vec![&digits[..first]] } else { Vec::new() };
    parts.extend((first..digits.len()).step_by(3).map(|i| &digits[i..i + 3]));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Pace, grouped};
    use crate::args::opened;
    use dyweight::models::ModelSpec;

    #[test]
    fn calls_are_timed_in_the_batches_of_the_run() {
        let model = opened(&ModelSpec::named("mixture")).unwrap();
        let pace = Pace::of(&model, &|_| Ok(Default::default()), 48).unwrap();
        assert_eq!(pace.noise.samples(), 48);
    }

    #[test]
    fn large_counts_can_be_read() {
        assert_eq!([7, 999, 1000, 1234567].map(grouped), ["7", "999", "1 000", "1 234 567"]);
    }
}
