//! `dyweight convert`.

use super::inspect::{Content, is_inception, refuse_guidance};
use crate::files::{keep_finished, solver_file};
use crate::ui;
use clap::Args;
use dyweight::error::{counted, shown};
use dyweight::files::Malformed;
use dyweight::files::{Format, OutputGuard, SharedBytes, atomic, read_data, sniff};
use dyweight::learned::released;
use dyweight::models::edm::{EdmFile, parameters};
use dyweight::models::inception::InceptionFile;
use dyweight::presets;
use dyweight::solver_file::{Asked, SolverFile};
use dyweight::{Error, Result};
use std::path::{Path, PathBuf};

/// What to convert into what.
#[derive(Args)]
pub struct ConvertArgs {
    /// A network checkpoint (.pkl, .pt), weights of Inception-v3 (.pth, .pt, .pkl), a released coefficient file (.pkl,
    /// .pt), a solver file, or preset:NAME; several solver files of different budgets or guidance become one for the
    /// whole range
    #[arg(required = true)]
    input: Vec<PathBuf>,
    /// The file to write: safetensors for a network, JSON for a solver
    output: PathBuf,
    /// Configuration of a network file that carries none
    #[arg(long = "model-config", alias = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Network calls, of a solver file that serves a range of budgets: the solver of one of them is written
    #[arg(long, value_name = "N")]
    nfe: Option<usize>,
    /// Guidance, with --nfe, of a solver file that serves a range of it
    #[arg(long, value_name = "G", requires = "nfe")]
    guidance: Option<f64>,
    /// Replace an output that is there already
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
pub fn run(args: &ConvertArgs) -> Result<()> {
    let config = args.config.iter().map(|path| ("--model-config", path.as_path()));
    let inputs = args.input.iter().map(|input| ("the input", input.as_path())).chain(config);
    OutputGuard::new(inputs).solver("the output", &args.output).check()?;
    refuse_arrays(&args.output)?;
    keep_finished(&args.output, args.overwrite, "output")?;
    let [input] = &args.input[..] else { return join(args) };
    if let Some(name) = preset(input) {
        return write_solver(args, &shown(input), &presets::find(name)?.1);
    }
    let bytes = read_data(input)?;
    let named = |problem| Error::malformed(input, problem);
    match sniff(&bytes) {
        format @ (Format::Pickle | Format::TorchZip | Format::TorchLegacy | Format::Zip) => {
            match Content::parse(bytes.clone(), format).map_err(named)? {
                Content::Coefficients(coefficients) => write_solver(args, &shown(input), &released(&coefficients)?),
                Content::Tensors(file) if is_inception(&file) => write_inception(args, input, bytes),
                Content::Network(_) | Content::Tensors(_) => write_network(args, input, bytes),
            }
        }
        Format::Safetensors => write_network(args, input, bytes),
        Format::SolverFile | Format::Json => {
            write_solver(args, &shown(input), &SolverFile::parse(&bytes).map_err(|p| Error::malformed(input, p))?)
        }
        other => {
            let expected = "a network checkpoint, a released coefficient file or a solver file";
            Err(named(Malformed::Format { expected, found: other.describe() }))
        }
    }
}

/// What is written here is a solver file or safetensors: under the name of an archive of arrays nothing would find it
/// again.
fn refuse_arrays(output: &Path) -> Result<()> {
    let foreign = |ending: &&str| output.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
    let Some(ending) = ["npz", "npy", "pkl", "pt", "ckpt"].iter().find(|ending| foreign(ending)) else { return Ok(()) };
    Err(Error::bad_value(
        "output",
        shown(output),
        format!("no .{ending} file is written: solvers become .json, networks .safetensors"),
    ))
}

/// Solvers of several budgets, as one file for the whole range.
fn join(args: &ConvertArgs) -> Result<()> {
    let named = |input: &PathBuf| {
        let file = match preset(input) {
            Some(name) => presets::find(name)?.1,
            None => solver_file(input)?,
        };
        Ok((shown(input), file))
    };
    let files = args.input.iter().map(named).collect::<Result<Vec<_>>>()?;
    write_solver(args, "what the inputs make together", &SolverFile::joined(files)?)
}

fn preset(input: &Path) -> Option<&str> {
    input.to_str()?.strip_prefix("preset:")
}

fn write_solver(args: &ConvertArgs, name: &str, file: &SolverFile) -> Result<()> {
    if args.config.is_some() {
        return Err(Error::no_effect("model-config", "what is written is a solver, no model"));
    }
    refuse_guidance(file, args.guidance)?;
    let file = &match args.nfe {
        Some(nfe) => file.at(name, Asked { guidance: args.guidance, ..Asked::nfe(nfe) })?,
        None => file.clone(),
    };
    file.warnings().iter().for_each(|w| ui::warn(w));
    atomic::write(&args.output, &file.to_bytes())?;
    let (method, said) = (file.body.method(), file.body.learned().summary());
    ui::say(&format!(
        "{}: {method}, {}, {}, {said}",
        shown(&args.output),
        counted(file.steps, "step"),
        counted(file.nfe, "call")
    ));
    Ok(())
}

/// Keeps every tensor as it is and the configuration in the metadata, even of a network that cannot be run here.
fn write_network(args: &ConvertArgs, input: &Path, bytes: SharedBytes) -> Result<()> {
    refuse_nfe(args)?;
    let file = EdmFile::parse(input, bytes, args.config.as_deref())?;
    check(input, &file);
    file.to_safetensors().write(&args.output)?;
    ui::say(&format!("{}: {} tensors, sha256 {}", shown(&args.output), file.tensors.len(), file.sha256()));
    Ok(())
}

/// Under the names of pytorch-fid, without what features do not need.
fn write_inception(args: &ConvertArgs, input: &Path, bytes: SharedBytes) -> Result<()> {
    refuse_nfe(args)?;
    if args.config.is_some() {
        return Err(Error::no_effect("model-config", "Inception-v3 has no other configuration"));
    }
    let file = InceptionFile::parse(input, bytes)?;
    file.to_safetensors().write(&args.output)?;
    let (out, count) = (shown(&args.output), file.tensors.len());
    ui::say(&format!("{out}: {count} tensors of Inception-v3, sha256 {}", file.sha256()));
    Ok(())
}

fn refuse_nfe(args: &ConvertArgs) -> Result<()> {
    match args.nfe {
        Some(_) => Err(Error::no_effect("nfe", "what is written is no solver")),
        None => Ok(()),
    }
}

fn check(path: &Path, file: &EdmFile) {
    if let Err(problem) = parameters(&file.config) {
        ui::warn(&format!("{}: this network cannot be run: {problem}", shown(path)));
    }
}
