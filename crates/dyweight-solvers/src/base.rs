//! The handcrafted solver that a learned method is built around.

use crate::spec::{SolverSpec, TrainSpec};
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DpmPp, Form, LowerOrderFinal, Predict, Solver, UniPc, Variant};
use serde::{Deserialize, Serialize};

/// A handcrafted solver, as a learned one's file names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Base {
    /// Its name.
    #[serde(rename = "base")]
    pub name: String,
    /// Its order; the method's highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<usize>,
    /// Data or noise prediction, of exponential integrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict: Option<Predict>,
    /// Whether their last orders are lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_order_final: Option<LowerOrderFinal>,
    /// UniPC's B(h).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
}

impl Base {
    /// A solver with its defaults.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), order: None, predict: None, lower_order_final: None, variant: None }
    }

    /// The description the rest of the program has of it.
    pub fn spec(&self) -> Result<SolverSpec> {
        let named = SolverSpec::named(&self.name);
        let method = named.method()?;
        if method.options.contains(&"weights") {
            return Err(Error::conflict(
                format!("{} is learned itself: no other method can be built around it", method.name),
                "choose a handcrafted base",
            ));
        }
        // Euler is called a method of order 1 by those who have no other name for it.
        let order = self.order.filter(|o| !(method.highest_order.is_none() && *o == 1));
        let (predict, lower_order_final, variant) = (self.predict, self.lower_order_final, self.variant);
        Ok(SolverSpec { order, predict, lower_order_final, variant, ..named })
    }

    /// The solver itself.
    pub fn build(&self, bounded: bool) -> Result<Box<dyn Solver>> {
        self.spec()?.at_highest_order().build(bounded)
    }

    /// The solver of LD3's papers and code: data predictions are never thresholded, the last orders always lowered.
    /// `frozen` takes UniPC's nodes as constants where its small system is solved.
    pub(crate) fn without_threshold(&self, frozen: bool) -> Result<Box<dyn Solver>> {
        let spec = self.spec()?;
        let form = Form {
            predict: self.predict.unwrap_or_default(),
            threshold: false,
            lower_order_final: self.lower_order_final.unwrap_or(LowerOrderFinal::Always),
        };
        let order = |highest: usize| spec.order.unwrap_or(highest);
        match spec.method()?.name {
            "dpmpp" => Ok(Box::new(DpmPp::new(order(DpmPp::HIGHEST), form)?)),
            "unipc" => {
                let unipc = UniPc::new(order(UniPc::HIGHEST), form)?.variant(self.variant.unwrap_or_default());
                Ok(Box::new(unipc.frozen_nodes(frozen)))
            }
            _ => spec.at_highest_order().build(false),
        }
    }
}

/// Which solver, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct BaseOptions {
    /// Solver that ld3 and other methods are built around [the method's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Base solver"))]
    pub base: Option<String>,
    /// B(h) of the base unipc [bh2].
    #[cfg_attr(feature = "clap", arg(long, value_name = "bh1|bh2", value_parser = crate::spec::one_of::<Variant>(&["bh1", "bh2"]), help_heading = "Base solver"))]
    pub variant: Option<Variant>,
    /// What the bases dpmpp and unipc extrapolate [x0].
    #[cfg_attr(feature = "clap", arg(long, value_name = "x0|eps", value_parser = crate::spec::one_of::<Predict>(&["x0", "eps"]), help_heading = "Base solver"))]
    pub predict: Option<Predict>,
    /// Lower the order of the bases dpmpp and unipc towards the end [auto].
    #[cfg_attr(feature = "clap", arg(long, value_name = "auto|true|false", help_heading = "Base solver"))]
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
