//! EPD's released tables as solver files.

use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::schedule::BetaTable;
use dyweight_files::EpdPreset;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::{MethodParams, ModelIdentity, SolverFile};
use dyweight_solvers::spec::ScheduleSpec;
use dyweight_solvers::{Alone, Epd, History};
use serde_json::json;

/// Released values lie on or, rounded, beyond their bounds.
const INSIDE: f64 = 1e-9;

/// A released predictor as a solver file, with its source. The release has f32 values of the effective tables; the file keeps what they are made of.
pub fn epd_preset(preset: &EpdPreset) -> Result<SolverFile> {
    let map = |table: &Vec<Vec<f64>>, f: &dyn Fn(f64) -> f64| -> Vec<Vec<f64>> {
        table.iter().map(|row| row.iter().map(|v| f(*v)).collect()).collect()
    };
    let logit = |p: f64| {
        let p = p.clamp(INSIDE, 1.0 - INSIDE);
        (p / (1.0 - p)).ln()
    };
    let scale =
        |range: f64| move |v: f64| if range > 0.0 { 2.0 * logit((v - 1.0 + range) / (2.0 * range)) } else { 0.0 };
    let tables = Epd {
        reach: Alone {},
        direction_range: preset.direction_range,
        time_range: preset.time_range,
        last_direction_one: preset.last_direction_one,
        r: map(&preset.r, &logit),
        scale_dir: map(&preset.scale_dir, &scale(preset.direction_range)),
        scale_time: map(&preset.scale_time, &scale(preset.time_range)),
        weight: map(&preset.weight, &f64::ln),
    };
    let body = match preset.order {
        None => MethodParams::Epd(tables),
        Some(order) => MethodParams::EpdPlugin(tables.around(History { order })),
    };
    let prediction = Prediction::Denoised;
    let rule = ScheduleSpec { schedule: Some(preset.schedule.clone()), rho: Some(preset.rho), ..Default::default() };
    let schedule = rule.build(prediction)?;
    let latent = preset.dataset.starts_with("lsun");
    let range = if latent { BetaTable::lsun_ldm().range() } else { (0.002, 80.0) };
    let points = preset.r.first().map_or(0, Vec::len);
    // What is really called, which the authors count once for all points of a step.
    let nfe = (1 + points) * preset.r.len() - usize::from(preset.afs);
    let frame = Frame::new(schedule, preset.r.len(), range, prediction)?;
    let frame = Frame { afs: preset.afs, bounded: !latent, nfe, ..frame };
    let mut file = SolverFile::new(body, &frame)?;
    file.model = ModelIdentity { name: preset.dataset.clone(), sha256: None };
    for (key, value) in
        [("teacher", json!(preset.teacher)), ("substeps", json!(preset.substeps)), ("source", json!(preset.source))]
    {
        file.training.insert(key.into(), value);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_files::EpdPresets;

    #[test]
    fn every_table_becomes_a_file_with_both_counts() {
        for preset in &EpdPresets::official().unwrap().presets {
            let file = epd_preset(preset).unwrap();
            assert_eq!(file.sequential_calls, Some(preset.nfe), "{}", preset.name);
            assert_eq!(file.nfe, 3 * preset.r.len() - 1, "{}", preset.name);
            assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file);
        }
    }
}
