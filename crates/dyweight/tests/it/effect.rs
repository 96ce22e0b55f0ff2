//! What an option of training is taken for, it does: every option under every kind of training either changes the run
//! or is refused by its name. Only what changes speed and memory is left out.

use dyweight::mixture::Mixture;
use dyweight::spec::Budget;
use dyweight::train::{TrainConfig, TrainSpec};
use rayon::prelude::*;
use serde_json::{Value, json};

/// Speed, memory and files, which `identity.rs` and the program's tests look at; what a run this short cannot show.
const LEFT_OUT: [&str; 9] =
    ["memory", "micro-batch", "noise", "init", "inception", "clip-model", "prompts", "patience", "recipe"];

/// Every kind of training.
fn settings() -> Vec<Value> {
    let paper = |more: Value| {
        let mut all = json!({ "iters": 3, "batch": 4, "validation": 4, "validate-every": 1, "teacher-nfe": 12 });
        more.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        all
    };
    let stepwise =
        |method: &str| json!({ "method": method, "iters": 3, "batch": 4, "validation": 4, "validate-every": 1 });
    vec![
        json!({ "pairs": 128, "validation": 16, "iters": 2, "teacher-nfe": 12, "choose-start": false }),
        paper(json!({})),
        paper(json!({ "plain": true, "validation": null, "validate-every": null })),
        paper(json!({ "loss": "huber" })),
        paper(json!({ "optimiser": "adamw" })),
        paper(json!({ "optimiser": "newton" })),
        paper(json!({ "supervision": "path", "teacher-nfe": null })),
        paper(json!({ "lr-rule": "constant" })),
        paper(json!({ "method": "s4s" })),
        paper(json!({ "method": "ld3", "pairs": 8 })),
        stepwise("epd"),
        stepwise("dss"),
        json!({ "method": "gits", "samples": 16, "validation": 4 }),
    ]
}

/// Each option with a value that is nobody's default.
fn options() -> Vec<(&'static str, Value)> {
    vec![
        ("afs", json!(false)),
        ("order", json!(2)),
        ("teacher", json!("dpmpp")),
        ("teacher-order", json!(2)),
        ("teacher-nfe", json!(20)),
        ("teacher-steps", json!(22)),
        ("teacher-schedule", json!("model")),
        ("teacher-denoise", json!(false)),
        ("supervision", json!("path")),
        ("substeps", json!(2)),
        ("loss", json!("l1")),
        ("huber-delta", json!(0.01)),
        ("features", json!("fashion")),
        ("resize", json!("pytorch-fid")),
        ("moments", json!(16)),
        ("reference", json!("fashion")),
        ("iters", json!(5)),
        ("batch", json!(6)),
        ("accumulate", json!(2)),
        ("pairs", json!(7)),
        ("lr", json!(0.0123)),
        ("warm-up", json!(0.7)),
        ("lr-rule", json!("constant")),
        ("optimiser", json!("sgd")),
        ("weight-decay", json!(0.3)),
        ("clip", json!(1e-4)),
        ("seed", json!(7)),
        ("validation", json!(9)),
        ("validate-every", json!(2)),
        ("plain", json!(true)),
        ("class", json!(1)),
        ("negative", json!("dog")),
        ("guidance", json!(2.0)),
        ("no-time-shift", json!(true)),
        ("no-time-scale", json!(true)),
        ("span", json!("state")),
        ("base", json!("euler")),
        ("points", json!(1)),
        ("end-weight", json!(0.5)),
        ("cost", json!("l1")),
        ("factor", json!(1.5)),
        ("samples", json!(24)),
        ("count-parallel", json!("once")),
    ]
}

/// What a run leaves, or why it is refused.
fn outcome(options: &Value) -> Result<String, String> {
    let spec: TrainSpec = serde_json::from_value(options.clone()).map_err(|e| e.to_string())?;
    let run = || {
        // EPD makes two calls a step.
        let mut config = TrainConfig::of(&Mixture::spiral(), Budget::Nfe(5), &spec)?;
        // The model's own rule is another than the student's.
        config.schedule.schedule = Some("time-uniform".into());
        config.train(&mut |_, _| Ok(()))
    };
    let trained = run().map_err(|error| error.to_string())?;
    let file = &trained.file;
    let losses: Vec<_> = file.training.iter().filter(|(key, _)| key.ends_with("loss")).collect();
    let body = serde_json::to_string(&file.body).map_err(|error| error.to_string())?;
    Ok(format!("{:?} {:?} {:?} {losses:?} {body}", trained.params, file.realised_times, trained.history))
}

/// True if an option says what the method has anyway, or what the setting says.
fn is_so_anyway(setting: &Value, option: &str, value: &Value) -> bool {
    let spec: TrainSpec = serde_json::from_value(setting.clone()).unwrap();
    let usual = serde_json::to_value(spec.taught().unwrap().with_defaults(spec.clone())).unwrap();
    // No method begins with an analytical step unless it says so.
    usual[option] == *value || (option == "afs" && usual["afs"].is_null() && *value == json!(false))
}

#[test]
fn every_option_changes_the_run_or_is_refused_by_name() {
    let tried: Vec<(Value, &str, Value)> = settings()
        .into_iter()
        .flat_map(|setting| options().into_iter().map(move |(option, value)| (setting.clone(), option, value)))
        .filter(|(setting, option, _)| {
            setting[*option].is_null() || !["supervision", "optimiser", "loss"].contains(option)
        })
        .filter(|(setting, option, value)| !is_so_anyway(setting, option, value))
        // Lion goes by signs, which three clipped gradients need not turn.
        .filter(|(setting, option, _)| (&setting["method"], *option) != (&json!("dss"), "clip"))
        .collect();
    let bases: Vec<(Value, String)> = settings()
        .into_par_iter()
        .map(|setting| (setting.clone(), outcome(&setting).unwrap_or_else(|e| panic!("{setting}: {e}"))))
        .collect();
    let idle: Vec<String> = tried
        .into_par_iter()
        .filter_map(|(setting, option, value)| {
            let base = &bases.iter().find(|(known, _)| *known == setting).unwrap().1;
            let mut with = setting.clone();
            with[option] = value.clone();
            match outcome(&with) {
                Ok(found) if found == *base => Some(format!("{option} = {value} changes nothing of {setting}")),
                // Without a free first step some methods cannot make as many calls.
                Err(said) if option == "afs" && said.contains("no grid lets") => None,
                Err(said) if !said.contains(option) => Some(format!("{option} = {value} under {setting}: {said}")),
                _ => None,
            }
        })
        .collect();
    assert!(idle.is_empty(), "{} in all\n{}", idle.len(), idle.join("\n"));
    assert!(LEFT_OUT.iter().all(|left_out| options().iter().all(|(option, _)| option != left_out)));
}
