//! `dyweight convert`.

use crate::ui;
use clap::Args;
use dyweight::checkpoint::{Format, OfficialCoefficients, Presets, SolverFile, read_file, sniff};
use dyweight::error::Malformed;
use dyweight::{Error, Result};
use std::path::{Path, PathBuf};

/// What to convert into what.
#[derive(Args)]
pub struct ConvertArgs {
    /// A released coefficient file (.pkl, .pt), a solver file, or preset:NAME
    input: PathBuf,
    /// The file to write
    output: PathBuf,
}

/// Runs the command.
pub fn run(args: &ConvertArgs) -> Result<()> {
    let file = solver_file(&args.input)?;
    file.warnings().iter().for_each(|w| ui::warn(w));
    file.write(&args.output)?;
    eprintln!("{}: {} steps, {} calls, window {}", args.output.display(), file.steps, file.nfe, file.order);
    Ok(())
}

fn solver_file(input: &Path) -> Result<SolverFile> {
    if let Some(name) = input.to_str().and_then(|s| s.strip_prefix("preset:")) {
        return Presets::official()?.find(name)?.solver_file();
    }
    let bytes = read_file(input, u64::MAX)?;
    let named = |problem| Error::malformed(input, problem);
    match sniff(&bytes) {
        Format::Pickle | Format::TorchZip | Format::TorchLegacy | Format::Zip => {
            OfficialCoefficients::parse(bytes).map_err(named)?.solver_file()
        }
        Format::SolverFile | Format::Json => SolverFile::parse(&bytes).map_err(named),
        other => {
            let expected = "a released coefficient file or a solver file";
            Err(named(Malformed::Format { expected, found: other.describe() }))
        }
    }
}
