//! Which noise table a model was trained with, and what it predicts.
//!
//! ```text
//! said            --beta-table
//! diffusers       scheduler/scheduler_config.json: beta_start, beta_end, beta_schedule (or trained_betas),
//!                 prediction_type
//! CompVis         linear_start, linear_end, parameterization of the configuration, or the tensor alphas_cumprod
//! flows           use_dynamic_shifting, base_shift, max_shift, base_image_seq_len, max_image_seq_len, shift of the
//!                 scheduler
//! otherwise       Stable Diffusion's with a context, the LSUN models' without
//! ```

use super::precond::Precond;
use crate::edm::kwargs::Kwargs;
use crate::preconditioned::Target;
use crate::weights::TensorSet;
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::{BetaTable, Shift};
use dyweight_files::Malformed;
use serde_json::{Map, Value};
use std::path::Path;

/// Levels of a table.
const STEPS: usize = 1000;

/// A rule of diffusers.
#[derive(Clone, Copy)]
enum Rule {
    ScaledLinear,
    Linear,
}

/// How the time of a flow is shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlowShift {
    /// By the same for all images.
    Fixed(f64),
    /// By e^μ, μ linear in the number of image tokens through two points (tokens, μ).
    ByTokens([(f64, f64); 2]),
}

impl FlowShift {
    /// FLUX.1-dev's.
    pub(super) const DEV: Self = FlowShift::ByTokens([(256.0, 0.5), (4096.0, 1.15)]);

    /// From the configuration of a diffusers flow scheduler.
    pub(super) fn of_diffusers(path: &Path, map: &Map<String, Value>) -> Result<Self> {
        let named = |problem| Error::malformed(path, problem);
        let options = Kwargs(map);
        options.choice("_class_name", &[("FlowMatchEulerDiscreteScheduler", ())]).map_err(named)?;
        options.choice("time_shift_type", &[("exponential", ())]).map_err(named)?;
        let others =
            ["use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "invert_sigmas", "stochastic_sampling"];
        for name in others {
            if options.flag(name).map_err(named)? == Some(true) {
                return Err(named(Malformed::Inconsistent {
                    problem: format!("{name} is set, which is not supported"),
                }));
            }
        }
        if options.number("shift_terminal").map_err(named)?.is_some() {
            let problem = "shift_terminal is set, which is not supported".into();
            return Err(named(Malformed::Inconsistent { problem }));
        }
        let number = |name: &str, otherwise: f64| options.number(name).map(|v| v.unwrap_or(otherwise)).map_err(named);
        if options.flag("use_dynamic_shifting").map_err(named)? != Some(true) {
            return Ok(FlowShift::Fixed(number("shift", 1.0)?));
        }
        let from = (number("base_image_seq_len", 256.0)?, number("base_shift", 0.5)?);
        let to = (number("max_image_seq_len", 4096.0)?, number("max_shift", 1.15)?);
        if from.0 == to.0 {
            let problem = format!("base_image_seq_len and max_image_seq_len are both {}", to.0);
            return Err(named(Malformed::Inconsistent { problem }));
        }
        Ok(FlowShift::ByTokens([from, to]))
    }

    /// For an image of so many tokens.
    pub(super) fn of(self, tokens: usize) -> Result<Shift> {
        match self {
            FlowShift::Fixed(shift) => Shift::fixed(shift),
            FlowShift::ByTokens([(x0, y0), (x1, y1)]) => {
                Shift::fixed((y0 + (y1 - y0) * (tokens as f64 - x0) / (x1 - x0)).exp())
            }
        }
    }
}

/// From the configuration of a diffusers scheduler.
pub(super) fn of_diffusers(path: &Path, map: &Map<String, Value>) -> Result<Precond> {
    let named = |problem| Error::malformed(path, problem);
    let options = Kwargs(map);
    let targets = [("epsilon", Target::Noise), ("v_prediction", Target::V)];
    let target = options.choice("prediction_type", &targets).map_err(named)?;
    let steps = options.count("num_train_timesteps", 1 << 20).map_err(named)?.unwrap_or(STEPS);
    if steps != STEPS || map.get("rescale_betas_zero_snr").and_then(Value::as_bool) == Some(true) {
        let problem = format!("{steps} training steps or rescaled betas; supported: {STEPS} steps as they are");
        return Err(named(Malformed::Inconsistent { problem }));
    }
    let betas = match options.numbers("trained_betas", STEPS).map_err(named)? {
        Some(betas) => betas,
        None => {
            let number = |name: &str, otherwise: f64| options.number(name).map(|v| v.unwrap_or(otherwise));
            let (start, end) = (number("beta_start", 0.0001).map_err(named)?, number("beta_end", 0.02).map_err(named)?);
            let rules = [("linear", Rule::Linear), ("scaled_linear", Rule::ScaledLinear)];
            betas(options.choice("beta_schedule", &rules).map_err(named)?, start, end)
        }
    };
    Ok(Precond { table: table_of(&betas).map_err(named)?, target })
}

/// From the parameters of a CompVis model and the tensors of its file.
pub(super) fn of_compvis(
    path: &Path,
    map: &Map<String, Value>,
    set: &TensorSet,
    otherwise: BetaTable,
) -> Result<Precond> {
    let named = |problem| Error::malformed(path, problem);
    let options = Kwargs(map);
    let target = options.choice("parameterization", &[("eps", Target::Noise), ("v", Target::V)]).map_err(named)?;
    let ends = (options.number("linear_start").map_err(named)?, options.number("linear_end").map_err(named)?);
    let table = match (ends, set.tensors.get("alphas_cumprod")) {
        ((Some(start), Some(end)), _) => table_of(&betas(Rule::ScaledLinear, start, end)).map_err(named)?,
        // Products are stored in f32: good enough to tell a released table by, and better than nothing otherwise.
        (_, Some(products)) => {
            let products = products.to_f64();
            let released = [BetaTable::stable_diffusion(), BetaTable::lsun_ldm()];
            match released.into_iter().find(|table| table.is_close_to(&products)) {
                Some(table) => table,
                None => BetaTable::of_products(&products)?,
            }
        }
        _ => otherwise,
    };
    Ok(Precond { table, target })
}

fn betas(rule: Rule, start: f64, end: f64) -> Vec<f64> {
    let at = |from: f64, to: f64, n: usize| from + n as f64 / (STEPS - 1) as f64 * (to - from);
    match rule {
        Rule::Linear => (0..STEPS).map(|n| at(start, end, n)).collect(),
        Rule::ScaledLinear => (0..STEPS).map(|n| at(start.sqrt(), end.sqrt(), n).powi(2)).collect(),
    }
}

fn table_of(betas: &[f64]) -> Result<BetaTable, Malformed> {
    let mut product = 1.0;
    let products: Vec<f64> = betas
        .iter()
        .map(|beta| {
            product *= 1.0 - beta;
            product
        })
        .collect();
    BetaTable::of_products(&products).map_err(|e| Malformed::Inconsistent { problem: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_shift_is_that_of_the_flow_rule() {
        for tokens in [16, 256, 1024, 4096, 9216] {
            let (a, b) = (FlowShift::DEV.of(tokens).unwrap().value(), Shift::for_tokens(tokens).value());
            assert!((a - b).abs() < 1e-14 * b, "{tokens} tokens: {a} and {b}");
        }
    }

    #[test]
    fn flow_schedulers() {
        let of = |text: &str| FlowShift::of_diffusers(Path::new("s.json"), &serde_json::from_str(text).unwrap());
        assert_eq!(of("{\"use_dynamic_shifting\": true, \"shift\": 3.0}").unwrap(), FlowShift::DEV);
        assert_eq!(of("{\"use_dynamic_shifting\": false, \"shift\": 3.0}").unwrap(), FlowShift::Fixed(3.0));
        for (text, name) in [
            ("{\"use_karras_sigmas\": true}", "use_karras_sigmas"),
            ("{\"_class_name\": \"PNDMScheduler\"}", "PNDMScheduler"),
            ("{\"shift_terminal\": 0.02}", "shift_terminal"),
        ] {
            assert!(of(text).unwrap_err().to_string().contains(name), "{text}");
        }
    }
}
