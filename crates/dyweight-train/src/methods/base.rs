//! Options of methods that are built around a handcrafted solver.

use crate::spec::TrainSpec;
use dyweight_core::solver::{Base, LowerOrderFinal, Predict, Variant};
use serde::{Deserialize, Serialize};

/// Which solver, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct BaseOptions {
    /// The solver a method is built around.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME",
            help_heading = "Solver",
            help = "Solver that ld3 and other methods are built around [the method's]"
        )
    )]
    pub base: Option<String>,
    /// Its B(h), if it is unipc.
    #[cfg_attr(feature = "clap", arg(long, value_name = "bh1|bh2", value_parser = crate::spec::one_of::<Variant>(&["bh1", "bh2"]), help_heading = "Solver", help = "B(h) of the base unipc [bh2]"))]
    pub variant: Option<Variant>,
    /// What it extrapolates.
    #[cfg_attr(feature = "clap", arg(long, value_name = "x0|eps", value_parser = crate::spec::one_of::<Predict>(&["x0", "eps"]), help_heading = "Solver", help = "What the bases dpmpp and unipc extrapolate [x0]"))]
    pub predict: Option<Predict>,
    /// Whether its last orders are lowered.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "auto|true|false",
            help_heading = "Solver",
            help = "Lower the order of the bases dpmpp and unipc towards the end [auto]"
        )
    )]
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
