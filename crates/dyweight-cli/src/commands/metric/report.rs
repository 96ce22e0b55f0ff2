//! What is said about a measurement.

use crate::ui;
use dyweight::Result;
use dyweight::files::atomic;
use dyweight::metrics::{Estimate, Provenance};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A measurement.
pub struct Report {
    pub values: Vec<(&'static str, Estimate)>,
    pub provenance: Provenance,
    pub warnings: Vec<String>,
}

impl Report {
    /// Prints it, and writes it where that was asked for.
    pub fn give(&self, out: Option<&Path>, json: bool) -> Result<()> {
        let facts = self.facts();
        if let Some(path) = out {
            atomic::write(path, format!("{facts:#}\n").as_bytes())?;
        }
        self.warnings.iter().for_each(|w| ui::warn(w));
        if json {
            ui::print_json(&facts);
            return Ok(());
        }
        let named = |name: &Option<String>| name.clone().unwrap_or("unknown".into());
        let (samples, reference) = (&self.provenance.samples, &self.provenance.reference);
        for (name, estimate) in &self.values {
            ui::print(&format!("{name}: {}", said(estimate)));
        }
        let count = samples.count.map_or("an unknown number".into(), |n| n.to_string());
        let of = reference.count.map_or(String::new(), |n| format!(" of {n}"));
        let features = named(&samples.features);
        ui::say(&format!("{count} images, features {features}, reference {}{of}", named(&reference.images)));
        Ok(())
    }

    fn facts(&self) -> Value {
        let values = self.values.iter().map(|(name, e)| (name.to_string(), number(e)));
        let mut facts: Map<String, Value> = values.collect();
        facts.insert("provenance".into(), json!(self.provenance));
        facts.insert("warnings".into(), json!(self.warnings));
        facts.into()
    }
}

/// A number and its error, where there is one.
pub fn said(estimate: &Estimate) -> String {
    let known = estimate.error.is_finite();
    if known { estimate.to_string() } else { format!("{:.6} (error unknown)", estimate.value) }
}

/// The same for programs; what is not a finite number is null.
pub fn number(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "error": estimate.error, "count": estimate.count })
}
