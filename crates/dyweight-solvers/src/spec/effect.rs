//! Where an option of training does something: the one table. What an option changes nothing of refuses it.
//!
//! Options that belong to a method stand with the method ([`Method::options`]); those of a loss where the loss is made.
//! What changes memory or speed alone may be said anywhere.

use super::TrainSpec;
use crate::method::Method;
use crate::rate::RateRule;
use crate::recipe::Optimiser;
use dyweight_core::error::{Error, Result};
use serde_json::Value;

/// Why an option does nothing.
enum Idle {
    /// It needs another: a key and its value.
    Needs(&'static str),
    /// Another leaves nothing of it.
    Beside(&'static str),
}
use Idle::{Beside, Needs};

/// An option, where it does something, and what is missing elsewhere. The options asked are those with the method's own
/// filled in.
struct Line {
    option: &'static str,
    acts: fn(&TrainSpec, &dyn Method) -> bool,
    idle: Idle,
}

const TABLE: &[Line] = &[
    Line { option: "huber-delta", acts: |s, _| s.loss.as_deref() == Some("huber"), idle: Needs("loss = huber") },
    Line { option: "weight-decay", acts: |s, _| decays(s), idle: Needs("optimiser = adamw") },
    Line {
        option: "warm-up",
        acts: |s, _| s.rate.unwrap_or_default() == RateRule::WarmUp,
        idle: Needs("lr-rule = warm-up"),
    },
    Line { option: "substeps", acts: divides, idle: Needs("supervision = path") },
    Line { option: "validation", acts: |s, _| !s.is_plain(), idle: Beside("plain") },
    Line { option: "validate-every", acts: |s, _| !s.is_plain(), idle: Beside("plain") },
    Line { option: "patience", acts: |s, _| !s.is_plain(), idle: Beside("plain") },
];

fn decays(spec: &TrainSpec) -> bool {
    matches!(spec.optimiser, Some(Optimiser::AdamW | Optimiser::Lion))
}

/// True if the teacher's steps follow from the student's.
fn divides(spec: &TrainSpec, method: &dyn Method) -> bool {
    spec.supervision.as_deref() == Some("path") || own(method, "substeps", spec).is_some()
}

/// What the method says where nothing was said, under options as given otherwise.
fn own(method: &dyn Method, option: &str, spec: &TrainSpec) -> Option<Value> {
    value(&method.with_defaults(without(option, spec)), option)
}

/// An error for an option that would change nothing, unless it says what is so anyway.
pub fn refuse_idle(method: &dyn Method, given: &TrainSpec) -> Result<()> {
    let spec = filled(method, given);
    refuse_overruled(given, &spec)?;
    for Line { option, acts, idle } in TABLE {
        let Some(said) = value(given, option).filter(|_| !acts(&spec, method)) else { continue };
        if own(method, option, given).as_ref() == Some(&said) {
            continue;
        }
        return Err(match idle {
            Needs(other) => Error::needs(option, other),
            Beside(other) => Error::excluded(option, other),
        });
    }
    Ok(())
}

/// An error for an option for which the method has a value of its own, whatever is said.
fn refuse_overruled(given: &TrainSpec, spec: &TrainSpec) -> Result<()> {
    let [given, spec] = [given, spec].map(|spec| serde_json::to_value(spec).unwrap_or_default());
    let all = given.as_object().into_iter().flatten();
    let overruled = |(key, said): &(&String, &Value)| {
        let kept = &spec[key.as_str()];
        !said.is_null() && !kept.is_null() && *said != kept
    };
    let Some((option, _)) = all.into_iter().find(overruled) else { return Ok(()) };
    let decided = spec[option.as_str()].as_str().map_or_else(|| spec[option.as_str()].to_string(), String::from);
    Err(Error::no_effect(
        option,
        format!("`method = {}` has {decided}, whatever is said", given["method"].as_str().unwrap_or_default()),
    ))
}

/// The options with the method's own, and the rule of descent.
fn filled(method: &dyn Method, given: &TrainSpec) -> TrainSpec {
    let spec = given.with_recipe(method);
    let usual = method.with_defaults(spec.clone());
    TrainSpec { optimiser: spec.optimiser.or(usual.optimiser), ..usual }
}

fn value(spec: &TrainSpec, option: &str) -> Option<Value> {
    serde_json::to_value(spec).ok()?.get(option).filter(|value| !value.is_null()).cloned()
}

fn without(option: &str, spec: &TrainSpec) -> TrainSpec {
    let mut all = serde_json::to_value(spec).unwrap_or_default();
    if let Some(map) = all.as_object_mut() {
        map.remove(option);
    }
    serde_json::from_value(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method;
    use serde_json::json;

    fn refused(options: &Value) -> Option<String> {
        let spec: TrainSpec = serde_json::from_value(options.clone()).unwrap();
        refuse_idle(spec.taught().unwrap(), &spec).err().map(|e| e.to_string())
    }

    /// Every line of the table: the option alone is refused by its name, and taken where it does something.
    #[test]
    fn every_line_refuses_and_takes() {
        let cases = [
            ("huber-delta", json!(0.5), json!({ "recipe": "paper" }), json!({ "loss": "huber" })),
            ("weight-decay", json!(0.5), json!({}), json!({ "optimiser": "adamw" })),
            ("weight-decay", json!(0.5), json!({ "method": "ld3" }), json!({ "method": "dss" })),
            ("warm-up", json!(0.5), json!({ "lr-rule": "constant" }), json!({})),
            ("warm-up", json!(0.5), json!({ "method": "s4s" }), json!({ "method": "s4s", "lr-rule": "warm-up" })),
            ("substeps", json!(3), json!({}), json!({ "supervision": "path" })),
            ("substeps", json!(7), json!({ "method": "s4s" }), json!({ "method": "epd" })),
            ("validation", json!(3), json!({ "plain": true }), json!({})),
            ("validate-every", json!(3), json!({ "plain": true }), json!({})),
            ("patience", json!(3), json!({ "plain": true }), json!({})),
            ("teacher-denoise", json!(true), json!({ "method": "epd" }), json!({ "method": "ld3" })),
            ("teacher-denoise", json!(true), json!({ "method": "amed" }), json!({})),
        ];
        let with = |(option, value): (&str, &Value), setting: &Value| {
            let mut all = setting.clone();
            all[option] = value.clone();
            all
        };
        for (option, value, idle, acts) in &cases {
            let said = refused(&with((option, value), idle)).unwrap_or_else(|| panic!("{option} is taken with {idle}"));
            assert!(said.contains(&format!("`{option}`")), "{said}");
            assert_eq!(refused(&with((option, value), acts)), None, "{option} with {acts}");
        }
        for Line { option, .. } in TABLE {
            assert!(cases.iter().any(|case| case.0 == *option), "{option} is not tried");
        }
    }

    /// What a method fills in is written into configurations, and read again.
    #[test]
    fn what_is_so_anyway_may_be_said() {
        for (name, ..) in method::list() {
            let spec = TrainSpec { method: Some(name.into()), ..TrainSpec::default() };
            let method = spec.taught().unwrap();
            let settled = method.with_defaults(spec);
            refuse_idle(method, &settled).unwrap_or_else(|e| panic!("{name}: {e}"));
            refuse_idle(method, &TrainSpec { plain: Some(true), ..settled }).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
