//! What a run would do, and what it would take: `--dry-run`.
//!
//! Calls are counted, not estimated. Time is what a few calls take here and now, in the batches of the run and once the
//! first are over, times their number. Memory is the most the process has held while it made them, and what the run will
//! hold beside: samples, states, a teacher's results, activations that are kept. `benches/memory.py` measures how far off
//! that is.

use crate::{machine, ui};
use dyweight::denoiser::{Condition, Cost, Levels};
use dyweight::models::LoadedModel;
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

/// What a call costs on this machine.
pub struct Pace<'m> {
    model: &'m LoadedModel,
    condition: Condition,
    noise: Tensor,
    /// Network calls of one evaluation.
    calls: usize,
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
            Ok(Self { model, condition, noise, calls })
        };
        let one = of(1)?;
        one.evaluate(false)?;
        // The first call opens what later ones find.
        let started = Instant::now();
        one.evaluate(false)?;
        let most = (LONGEST / started.elapsed().as_secs_f64().max(1e-9)) as usize;
        of(batch.min(most).max(1))
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

    /// Bytes that one evaluation keeps for its gradient, as far as the process has grown by it.
    pub fn kept(&self) -> Result<u64> {
        let held = || machine::peak_bytes().unwrap_or(0);
        self.evaluate(false)?;
        let before = held();
        self.evaluate(true)?;
        Ok(held() - before)
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
        let model = &*self.model.model;
        // Only models without conditions are asked in parts.
        let level = Levels::One(0.5 * model.sigma_range().0 + 0.5 * model.sigma_range().1.min(1.0));
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
}

/// What would be done.
pub struct Forecast {
    /// In one sentence, after "would".
    pub what: String,
    /// Network calls.
    pub work: Work,
    /// Seconds.
    pub seconds: f64,
    /// Bytes held beside what the calls take.
    pub held: u64,
    /// What would be written where.
    pub writes: Vec<String>,
    /// Samples of a call.
    pub batch: usize,
    /// What a call costs, where the model says so, and the operations per second just measured: then no call is made.
    pub known: Option<(Cost, f64)>,
}

impl Forecast {
    /// As JSON.
    fn facts(&self) -> Value {
        let mut facts = json!({
            "would": self.what, "calls": self.work.calls, "gradients": self.work.gradients, "seconds": self.seconds,
            "peak_bytes": self.peak(), "threads": rayon::current_num_threads(), "writes": self.writes,
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

    /// The most the run will hold: what the calls that were made have, or what the model says of one, and the data.
    fn peak(&self) -> Option<u64> {
        let model = |peak: u64| match &self.known {
            Some((cost, _)) => peak.max(cost.resident + PROGRAM) + cost.activations * self.batch as u64,
            None => peak,
        };
        machine::peak_bytes().map(|peak| model(peak) + self.held)
    }

    /// How long, and by what; how much memory.
    fn costs(&self) -> Vec<String> {
        let (threads, all) = (rayon::current_num_threads(), ui::duration(self.seconds));
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let Some((cost, rate)) = &self.known else {
            let memory = self.peak().map(|bytes| format!("  memory  about {} MB", megabytes(bytes)));
            let time = format!("  time    about {all} on {threads} threads, by a few calls made now");
            return std::iter::once(time).chain(memory).collect();
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
                "  memory  {resident} MB of {weights} MB of weights at a time, {activations} MB for each sample of a batch"
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
