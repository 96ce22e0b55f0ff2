//! Options of methods with points inside their steps: EPD and AMED.

use serde::{Deserialize, Serialize};

/// When a step-by-step training moves the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// After every step.
    #[default]
    Each,
    /// After the last step, by its loss alone.
    Last,
}

/// How a budget counts calls that could be made side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountParallel {
    /// All of them: what is really called.
    #[default]
    Each,
    /// Once, as EPD's authors do.
    Once,
}

/// Points inside a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct PointOptions {
    /// Points inside each step of epd [2].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver"))]
    pub points: Option<usize>,
    /// How far epd and amed may scale directions from 1 [epd 0.05, amed 0.01].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver"))]
    pub direction_range: Option<f64>,
    /// How far epd and amed may scale the network's times from 1 [epd 0.05, amed 0, amed-plugin 0.2].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver"))]
    pub time_range: Option<f64>,
    /// The last step's directions of epd are not scaled.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver"))]
    pub last_direction_one: Option<bool>,
    /// When epd moves its parameters: after each step, or after the last by its loss alone [last for epd on images in fewer than 5 steps].
    #[cfg_attr(feature = "clap", arg(long, value_name = "each|last", value_parser = crate::spec::one_of::<Updates>(&["each", "last"]), help_heading = "Optimisation"))]
    pub updates: Option<Updates>,
}
