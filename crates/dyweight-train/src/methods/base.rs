//! Options of methods that are built around a handcrafted solver.

use crate::spec::TrainSpec;
use dyweight_core::solver::{LowerOrderFinal, Predict, Variant};
use dyweight_solvers::Base;
use serde::{Deserialize, Serialize};

/// Which solver, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct BaseOptions {
    /// Solver that ld3 and other methods are built around [the method's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Solver"))]
    pub base: Option<String>,
    /// B(h) of the base unipc [bh2].
    #[cfg_attr(feature = "clap", arg(long, value_name = "bh1|bh2", value_parser = crate::spec::one_of::<Variant>(&["bh1", "bh2"]), help_heading = "Solver"))]
    pub variant: Option<Variant>,
    /// What the bases dpmpp and unipc extrapolate [x0].
    #[cfg_attr(feature = "clap", arg(long, value_name = "x0|eps", value_parser = crate::spec::one_of::<Predict>(&["x0", "eps"]), help_heading = "Solver"))]
    pub predict: Option<Predict>,
    /// Lower the order of the bases dpmpp and unipc towards the end [auto].
    #[cfg_attr(feature = "clap", arg(long, value_name = "auto|true|false", help_heading = "Solver"))]
    pub lower_order_final: Option<LowerOrderFinal>,
}

impl BaseOptions {
    /// The base of a run, `usual` if none is named.
    pub fn of(spec: &TrainSpec, usual: &str) -> Base {
        let own = &spec.base;
        Base {
            name: own.base.clone().unwrap_or_else(|| usual.into()),
            order: spec.order,
            predict: own.predict,
            lower_order_final: own.lower_order_final,
            variant: own.variant,
        }
    }
}
