//! `dyweight convert`.

use super::inspect::{Content, is_inception};
use crate::files::{keep_finished, place};
use crate::ui;
use clap::Args;
use dyweight::error::shown;
use dyweight::files::Malformed;
use dyweight::files::{Format, SharedBytes, atomic, read_data, sniff};
use dyweight::models::edm::{Blueprint, Config, EdmFile};
use dyweight::models::inception::InceptionFile;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::train::learned::{named_preset, released};
use dyweight::{Error, Result};
use std::path::{Path, PathBuf};

/// What to convert into what.
#[derive(Args)]
pub struct ConvertArgs {
    /// A network checkpoint (.pkl, .pt), weights of Inception-v3 (.pth, .pt, .pkl), a released coefficient file (.pkl, .pt), a solver file, or preset:NAME
    input: PathBuf,
    /// The file to write: safetensors for a network, JSON for a solver
    output: PathBuf,
    /// Configuration of a network file that carries none
    #[arg(long = "model-config", alias = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Network calls, of a solver file that serves a range of budgets: the solver of one of them is written
    #[arg(long, value_name = "N")]
    nfe: Option<usize>,
    /// Replace an output that is there already
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
pub fn run(args: &ConvertArgs) -> Result<()> {
    let config = args.config.iter().map(|path| ("--model-config", path.as_path()));
    let inputs: Vec<_> = std::iter::once(("the input", args.input.as_path())).chain(config).collect();
    place(&[("the output", &args.output)], &inputs)?;
    keep_finished(&args.output, args.overwrite, "output")?;
    if let Some(name) = args.input.to_str().and_then(|s| s.strip_prefix("preset:")) {
        return write_solver(args, &named_preset(name)?.1);
    }
    let bytes = read_data(&args.input)?;
    let named = |problem| Error::malformed(&args.input, problem);
    match sniff(&bytes) {
        format @ (Format::Pickle | Format::TorchZip | Format::TorchLegacy | Format::Zip) => {
            match Content::parse(bytes.clone(), format).map_err(named)? {
                Content::Coefficients(coefficients) => write_solver(args, &released(&coefficients)?),
                Content::Tensors(file) if is_inception(&file) => write_inception(args, bytes),
                Content::Network(_) | Content::Tensors(_) => write_network(args, bytes),
            }
        }
        Format::Safetensors => write_network(args, bytes),
        Format::SolverFile | Format::Json => {
            write_solver(args, &SolverFile::parse(&bytes).map_err(|p| Error::malformed(&args.input, p))?)
        }
        other => {
            let expected = "a network checkpoint, a released coefficient file or a solver file";
            Err(named(Malformed::Format { expected, found: other.describe() }))
        }
    }
}

fn write_solver(args: &ConvertArgs, file: &SolverFile) -> Result<()> {
    let file = &match args.nfe {
        Some(nfe) => file.at(&shown(&args.input), Some(Budget::Nfe(nfe)), None)?,
        None => file.clone(),
    };
    file.warnings().iter().for_each(|w| ui::warn(w));
    atomic::write(&args.output, &file.to_bytes())?;
    let (method, said) = (file.body.method(), file.body.learned().summary());
    ui::say(&format!("{}: {method}, {} steps, {} calls, {said}", shown(&args.output), file.steps, file.nfe));
    Ok(())
}

/// Keeps every tensor as it is and the configuration in the metadata, even of a network that cannot be run here.
fn write_network(args: &ConvertArgs, bytes: SharedBytes) -> Result<()> {
    let file = EdmFile::parse(&args.input, bytes, args.config.as_deref())?;
    check(&args.input, &file);
    file.to_safetensors().write(&args.output)?;
    ui::say(&format!("{}: {} tensors, sha256 {}", shown(&args.output), file.tensors.len(), file.sha256()));
    Ok(())
}

/// Under the names of pytorch-fid, without what features do not need.
fn write_inception(args: &ConvertArgs, bytes: SharedBytes) -> Result<()> {
    let file = InceptionFile::parse(&args.input, bytes)?;
    file.to_safetensors().write(&args.output)?;
    let (out, count) = (shown(&args.output), file.tensors.len());
    ui::say(&format!("{out}: {count} tensors of Inception-v3, sha256 {}", file.sha256()));
    Ok(())
}

fn check(path: &Path, file: &EdmFile) {
    if let Err(problem) = Config::from_map(&file.config).and_then(|config| Blueprint::new(&config)) {
        ui::warn(&format!("{}: this network cannot be run: {problem}", shown(path)));
    }
}
