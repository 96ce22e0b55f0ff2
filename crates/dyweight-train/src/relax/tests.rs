//! Rounds and balls by hand, and the first visits of the released training loop.

use super::*;
use crate::objective::Loss;
use crate::optimiser::{Moments, clip};
use crate::student::Student;
use crate::{ByParams, Learnable};
use crate::{Optimiser, Relaxation};
use dyweight_core::denoiser::Prediction;
use dyweight_core::mixture::Mixture;
use dyweight_core::schedule::Schedule;
use dyweight_core::tape::Memory;
use dyweight_files::TensorFile;
use dyweight_solvers::Base;
use dyweight_solvers::Ld3;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn rounds_visit_every_pair_once_and_noise_stays_in_its_ball() {
    let relaxation = Relaxation { pairs: 7, step: 1.0, radius: 0.5 };
    let mut seen: Vec<usize> = (4..8).flat_map(|i| relaxation.batch(i, 2, 3)).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..7).collect::<Vec<_>>());
    assert!(relaxation.ends_round(3, 2) && !relaxation.ends_round(4, 2));
    let own = Tensor::new([2, 1, 1, 2], vec![0.0, 0.0, 1.0, 1.0]).unwrap();
    let gradient = Gradient { noise: vec![6.0, 8.0, 0.2, 0.0], ..Gradient::default() };
    let moved = trial(&own, &own, &gradient, (1.0, 0.5));
    for (a, b) in moved.data().iter().zip([-0.3, -0.4, 0.9, 1.0]) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
    let mut now = own.clone();
    assert_eq!(keep(&mut now, &moved, &[1.0, 1.0], &[1.0, 0.5]), 1);
    assert_eq!(now.data(), [0.0, 0.0, 0.9, 1.0]);
}

struct Records(TensorFile);

impl Records {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ld3_loop.safetensors");
        Self(TensorFile::read(&path).unwrap())
    }

    fn get(&self, name: &str) -> Vec<f64> {
        self.0.tensor(name).unwrap().to_f64()
    }

    fn model(&self) -> Mixture {
        let (means, stds, weights) = (self.get("model.mu"), self.get("model.std"), self.get("model.weight"));
        let dims = means.len() / stds.len();
        let rows = means.chunks(dims).zip(stds).zip(weights).map(|((m, s), w)| (m.to_vec(), s, w));
        Mixture::new(rows.collect()).unwrap()
    }

    fn learnable(&self, run: &str, options: &Value) -> Ld3 {
        let name = match options["solver"].as_str().unwrap() {
            "uni_pc" => "unipc",
            "dpm_solver++" => "dpmpp",
            other => other,
        };
        let of = |key: &str| options[key].as_u64().map(|v| v as usize);
        let variant = serde_json::from_value(options.get("variant").cloned().unwrap_or(json!(null))).unwrap();
        let base = Base { order: of("order"), variant, ..Base::named(name) };
        let mode = serde_json::from_value(options["time_mode"].clone()).unwrap();
        let (p1, p2) = (self.get(&format!("{run}.p1_init")), self.get(&format!("{run}.p2_init")));
        let window = options["win_rate"].as_f64().unwrap();
        Ld3 { p1, p2, frozen_nodes: true, ..Ld3::start(base, mode, window, 1) }
    }
}

fn near(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(1e-12, |m: f64, v| m.max(v.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * largest, "{name}: {a} is not {b}");
    }
}

/// Rows of a list of samples.
fn rows(all: &[f64], ids: &[usize]) -> Tensor {
    let data: Vec<f64> = ids.iter().flat_map(|i| all[i * 48..(i + 1) * 48].to_vec()).collect();
    Tensor::new([ids.len(), 3, 4, 4], data).unwrap()
}

/// Ten visits each of four runs: losses, gradients, both optimisers, the trial and what is kept of it. Where the
/// released loop puts its best parameters back, after a validation and at the start of a round, the record says so.
#[test]
fn the_released_loop_visit_by_visit() {
    let records = Records::read();
    let model = records.model();
    for run in ["run0", "run1", "run2", "run3"] {
        let options: Value = serde_json::from_str(&records.0.metadata[run]).unwrap();
        let body = records.learnable(run, &options);
        let steps = body.p1.len() - 1;
        let (schedule, range) = (Schedule::Karras { rho: 7.0 }, (0.002, 80.0));
        let frame = Frame::new(schedule, steps, range, Prediction::Denoised).unwrap();
        let student = Student { frame, loss: Loss::L2, memory: Memory::Recompute, stepwise: None, near: None };
        let of = |key: &str| records.get(&format!("{run}.{key}"));
        let (own, targets, mut now) = (of("latents"), of("targets"), of("latents"));
        let learnable = ByParams(MethodParams::Ld3(body));
        let learnable: &dyn Learnable = &learnable;
        let mut moments = [Moments::new(steps + 1), Moments::new(steps + 1)];
        let (batches, rates, valid) = (of("batch"), of("rates"), of("is_valid"));
        let radius = options["prior_bound_used"].as_f64().unwrap();
        for visit in 0..valid.len() {
            let name = |what: &str| format!("{run}, visit {visit}: {what}");
            let ids: Vec<usize> = batches[2 * visit..2 * visit + 2].iter().map(|i| *i as usize).collect();
            let row = |key: &str| of(key)[(steps + 1) * visit..(steps + 1) * (visit + 1)].to_vec();
            let [step, lr1, lr2] = [0, 1, 2].map(|k| rates[3 * visit + k]);
            let width = 2 * (steps + 1);
            let mut params = of("start")[width * visit..width * (visit + 1)].to_vec();
            let (noise, y) = (rows(&now, &ids), rows(&targets, &ids));
            let found = student
                .gradient(&model, (learnable, &params[..]), (&noise, true), std::slice::from_ref(&y), None)
                .unwrap();
            near(&name("loss"), &found.losses, &of("loss")[2 * visit..2 * visit + 2], 1e-6);
            let both = of("round")[visit] >= options["rounds_v1"].as_f64().unwrap();
            if valid[visit] == 0.0 {
                let gradient = found.gradient();
                let (mut g1, mut g2) = (gradient[..=steps].to_vec(), gradient[steps + 1..].to_vec());
                near(&name("gradient of p1"), &g1, &row("grad_p1"), if visit == 0 { 1e-7 } else { 1e-6 });
                clip(&mut g1, 1.0);
                let (p1, p2) = params.split_at_mut(steps + 1);
                moments[0].update(Optimiser::RmsProp, p1, &g1, lr1, 0.0);
                if both {
                    near(&name("gradient of p2"), &g2, &row("grad_p2"), 1e-6);
                    clip(&mut g2, 1.0);
                    moments[1].update(Optimiser::Sgd, p2, &g2, lr2, 0.0);
                }
                near(&name("p1"), &params[..=steps], &row("p1"), 1e-6);
                near(&name("p2"), &params[steps + 1..], &row("p2"), 1e-6);
            }
            params = [row("p1_now"), row("p2_now")].concat();
            let trial = trial(&noise, &rows(&own, &ids), &found, (step, radius));
            let sample = |key: &str| of(key)[2 * 48 * visit..2 * 48 * (visit + 1)].to_vec();
            near(&name("trial"), trial.data(), &sample("trial"), 1e-6);
            let after = student.losses(&model, (learnable, &params[..]), &trial, &[y]).unwrap();
            near(&name("loss after"), &after, &of("loss_after")[2 * visit..2 * visit + 2], 1e-6);
            let mut kept = noise;
            keep(&mut kept, &trial, &found.losses, &after);
            near(&name("noise kept"), kept.data(), &sample("latent"), 1e-6);
            for (k, id) in ids.iter().enumerate() {
                now[id * 48..(id + 1) * 48].copy_from_slice(kept.sample(k));
            }
        }
    }
}
