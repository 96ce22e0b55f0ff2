//! Options of methods whose objective can be relaxed: LD3 and S4S.

use crate::relax::Relaxation;
use crate::spec::{TrainSpec, finite_above, positive};
use dyweight_core::error::Result;
use serde::{Deserialize, Serialize};

/// Whether, and how far, the noise of pairs moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct RelaxOptions {
    /// The noise of each pair is a variable inside a small ball [true for ld3, false for s4s].
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Optimisation"))]
    pub relax: Option<bool>,
    /// Step of the noise [12 by the number of steps].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub noise_step: Option<f64>,
    /// Radius in which the noise of a pair stays [0.001 times a sample's parameters by the steps squared].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub noise_radius: Option<f64>,
}

impl RelaxOptions {
    /// The relaxation of a run, if there is one; `usual` decides where nothing was said.
    pub(super) fn of(spec: &TrainSpec, usual: bool, steps: usize, params: usize) -> Result<Option<Relaxation>> {
        let own = &spec.relax;
        if !own.relax.unwrap_or(usual) {
            return Ok(None);
        }
        // The released code rounds both.
        let rounded = |v: f64| (v * 1e8).round() / 1e8;
        let steps = steps as f64;
        Ok(Some(Relaxation {
            pairs: positive("pairs", spec.pairs.unwrap_or(PAIRS))?,
            step: finite_above("noise-step", own.noise_step.unwrap_or(rounded(12.0 / steps)), 0.0)?,
            radius: finite_above(
                "noise-radius",
                own.noise_radius.unwrap_or(rounded(1e-3 * params as f64 / (steps * steps))),
                0.0,
            )?,
        }))
    }
}

/// Pairs of the published recipe.
pub(super) const PAIRS: usize = 50;
