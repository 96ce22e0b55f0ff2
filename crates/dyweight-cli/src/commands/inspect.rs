//! `dyweight inspect`.

use crate::ui;
use clap::Args;
use dyweight::checkpoint::{Format, OfficialCoefficients, SolverFile, StoredTensor, TensorFile, read_file, sniff};
use dyweight::{Error, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What to look into.
#[derive(Args)]
pub struct InspectArgs {
    /// A solver file, a released coefficient file, or a safetensors file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    let path = &args.file;
    let bytes = read_file(path, u64::MAX)?;
    let size = bytes.len();
    let format = sniff(&bytes);
    let named = |problem| Error::malformed(path, problem);
    let mut facts = json!({ "file": path, "bytes": size, "format": format.describe() });
    match format {
        Format::Safetensors => {
            let file = TensorFile::parse(bytes).map_err(named)?;
            facts["metadata"] = json!(file.metadata);
            facts["tensors"] = file.tensors.iter().map(|(name, t)| tensor_facts(name, t)).collect();
            show(args, facts, |facts| tensor_table(facts))
        }
        Format::SolverFile | Format::Json => solver(args, facts, SolverFile::parse(&bytes).map_err(named)?),
        Format::Pickle | Format::TorchZip | Format::TorchLegacy | Format::Zip => {
            let file = OfficialCoefficients::parse(bytes).map_err(named)?.solver_file()?;
            solver(args, facts, file)
        }
        other => Err(unknown_format(path, other)),
    }
}

fn unknown_format(path: &Path, format: Format) -> Error {
    let expected = "a solver file, a coefficient file or a checkpoint";
    Error::malformed(path, dyweight::error::Malformed::Format { expected, found: format.describe() })
}

fn tensor_facts(name: &str, tensor: &StoredTensor) -> Value {
    json!({ "name": name, "dtype": tensor.dtype().name(), "shape": tensor.shape() })
}

fn show(args: &InspectArgs, facts: Value, body: impl FnOnce(&Value)) -> Result<()> {
    if args.json {
        ui::print_json(&facts);
        return Ok(());
    }
    let text = |key: &str| facts[key].as_str().unwrap_or_default().to_string();
    ui::print(&format!("{}: {}, {} bytes", text("file"), text("format"), facts["bytes"]));
    body(&facts);
    Ok(())
}

fn tensor_table(facts: &Value) {
    if let Some(metadata) = facts["metadata"].as_object() {
        metadata.iter().for_each(|(k, v)| ui::print(&format!("  {k}: {}", v.as_str().unwrap_or_default())));
    }
    let mut rows = vec![["tensor", "dtype", "shape"].map(String::from).to_vec()];
    let mut entries = 0u64;
    for tensor in facts["tensors"].as_array().into_iter().flatten() {
        let shape: Vec<u64> = tensor["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        entries += shape.iter().product::<u64>();
        let text = |key: &str| tensor[key].as_str().unwrap_or_default().to_string();
        rows.push(vec![text("name"), text("dtype"), format!("{shape:?}")]);
    }
    ui::table(&rows);
    ui::print(&format!("{} tensors, {entries} numbers", rows.len() - 1));
}

fn solver(args: &InspectArgs, mut facts: Value, file: SolverFile) -> Result<()> {
    facts["solver"] = json!(file);
    facts["warnings"] = json!(file.warnings());
    show(args, facts, |_| solver_table(&file))
}

fn solver_table(file: &SolverFile) {
    let schedule = json!(file.schedule);
    ui::print(&format!(
        "{} for '{}': {} calls, {} steps, window {}, {} first step",
        file.method,
        file.model.name,
        file.nfe,
        file.steps,
        file.order,
        if file.afs { "analytical" } else { "network" }
    ));
    ui::print(&format!("schedule {schedule}, sigma {} to {}", file.sigma_max, file.sigma_min));
    let mut rows = vec![["step", "time", "level told", "sum", "weights, newest last"].map(String::from).to_vec()];
    for (i, row) in file.weights.iter().enumerate() {
        let level = file.network_levels[i].map_or("-".into(), |l| format!("{l:.5}"));
        let weights: Vec<String> = row.iter().map(|w| format!("{w:>8.4}")).collect();
        let sum: f64 = row.iter().sum();
        rows.push(vec![
            i.to_string(),
            format!("{:.5}", file.realised_times[i]),
            level,
            format!("{sum:.4}"),
            weights.join(" "),
        ]);
    }
    let last = file.realised_times.last().copied().unwrap_or(0.0);
    rows.push(vec!["end".into(), format!("{last:.5}")]);
    ui::table(&rows);
    for (key, value) in &file.training {
        ui::print(&format!("  {key}: {value}"));
    }
    file.warnings().iter().for_each(|w| ui::warn(w));
}
