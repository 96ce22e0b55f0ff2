//! What is written beside the figures: CSV and JSON for programs, markdown for readers.

use super::observe::{Observation, digits, remaining};
use super::options::Settings;
use super::record::{Record, Stat};
use super::run::TEACHER_STEPS;
use dyweight_core::error::{Error, Result};
use dyweight_files::image;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Writes all three.
pub(super) fn write(
    records: &[Record],
    settings: &Settings,
    observations: &[Observation],
    outdir: &Path,
) -> Result<Vec<PathBuf>> {
    let path = outdir.join("numeric.json");
    let failed = |e: serde_json::Error| Error::io("write", &path, e.into());
    let json = serde_json::to_string_pretty(&json(records, settings, observations)).map_err(failed)?;
    let texts = [("csv", csv(records)), ("json", json + "\n"), ("md", markdown(records, settings, observations))];
    let mut files = Vec::new();
    for (extension, text) in texts {
        let path = outdir.join("numeric").with_extension(extension);
        image::write(&path, text.as_bytes())?;
        files.push(path);
    }
    Ok(files)
}

/// Name and values of each column of numbers.
fn columns(record: &Record) -> [(&'static str, Stat); 5] {
    [
        ("standard", Stat::of(&record.standard)),
        ("optimised", Stat::of(&record.optimised)),
        ("fresh", Stat::of(&record.fresh)),
        ("fresh_standard", Stat::of(&record.fresh_standard)),
        ("teacher", Stat::of(&record.teacher)),
    ]
}

fn csv(records: &[Record]) -> String {
    let mut out = String::from("degree,steps,order,problems");
    for name in ["standard", "optimised", "fresh", "fresh_standard", "teacher"] {
        let _ = write!(out, ",{name}_mean,{name}_se");
    }
    out.push('\n');
    for record in records {
        let cell = record.cell;
        let _ = write!(out, "{},{},{},{}", cell.degree, cell.steps, cell.order, record.standard.len());
        for (_, stat) in columns(record) {
            let _ = write!(out, ",{:e},{:e}", stat.mean, stat.se);
        }
        out.push('\n');
    }
    out
}

fn json(records: &[Record], settings: &Settings, observations: &[Observation]) -> Value {
    let cell = |record: &Record| {
        let mut value = json!(record.cell);
        for (name, stat) in columns(record) {
            value[name] = json!(stat);
        }
        value
    };
    json!({
        "study": "numeric",
        "version": 1,
        "settings": settings,
        "teacher": { "order": 4, "steps": TEACHER_STEPS },
        "error": "‖y(1) − y*(1)‖ / ‖y*(1)‖, mean over problems with its standard error",
        "cells": records.iter().map(cell).collect::<Vec<_>>(),
        "observations": observations,
    })
}

fn markdown(records: &[Record], settings: &Settings, observations: &[Observation]) -> String {
    let mut out = format!("# Numerical study of solver coefficients\n\n{}\n\n", method(settings));
    out.push_str("## The four observations\n\n");
    for (index, o) in observations.iter().enumerate() {
        let _ = writeln!(out, "{}. *{}* — **{}**: {}", index + 1, o.claim, o.verdict(), o.found);
    }
    let _ = writeln!(out, "\n## What is learned and what is fitted\n\n{CAVEAT}{}", remaining(records));
    out.push_str("\n## Numbers\n\n| K | S | order | standard | optimised | same weights, fresh problem | standard, fresh problem | teacher |\n");
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    for record in records {
        let cell = record.cell;
        let _ = write!(out, "| {} | {} | {} |", cell.degree, cell.steps, cell.order);
        for (_, stat) in columns(record) {
            let _ = write!(out, " {} ± {} |", digits(stat.mean), digits(stat.se));
        }
        out.push('\n');
    }
    out
}

/// What the errors are of, in words.
pub(super) fn method(s: &Settings) -> String {
    format!(
        "y' = y*'(t) + A·(y − y*(t)) on [0, 1], y* a random polynomial of degree K in {} dimensions, A = G − ½I with \
         entries of G of {} 0.1/√D. Adams–Bashforth methods with S uniform steps from {}: classical \
         (standard) weights, and weights for each step fitted to one problem by {} iterations of Adam (rate {}) on the \
         {} of the terminal error. Errors are ‖y(1) − y*(1)‖/‖y*(1)‖, mean ± standard error over {} problems (seed {}). \
         The teacher is AB-4 with {TEACHER_STEPS} steps.",
        s.dims,
        if s.coupling == super::Coupling::Std { "standard deviation" } else { "variance" },
        if s.startup == super::Startup::Order { "as many exact states as the order" } else { "four exact states" },
        s.iterations,
        s.lr,
        if s.loss == super::EndLoss::Mse { "mean square" } else { "norm" },
        s.problems,
        s.seed,
    )
}

pub(super) const CAVEAT: &str = "The optimised errors are in-sample: the weights were fitted to the very trajectory they are judged on, with one \
    trajectory to fit. The columns for fresh problems run the same weights on another random problem of the same kind. \
    What remains of the gain there is what the weights have learned about such problems; the rest was fitted to one \
    of them. ";
