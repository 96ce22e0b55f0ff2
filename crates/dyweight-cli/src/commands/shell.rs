//! `dyweight completions` and `dyweight man`: what shells and manuals need, from the descriptions the help is made of.

use crate::{help, ui};
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use dyweight::{Error, Result};
use std::path::PathBuf;

/// For which shell.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell; its script goes to standard output
    #[arg(value_enum)]
    shell: ShellName,
}

/// Shells by their names.
#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Elvish,
    #[value(name = "powershell")]
    PowerShell,
}

/// Where to.
#[derive(Args)]
pub struct ManArgs {
    /// Directory for one page per command; without it the main page goes to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the script of a shell.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let shell = match args.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
        ShellName::Elvish => Shell::Elvish,
        ShellName::PowerShell => Shell::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "dyweight", &mut script);
    ui::print_raw(&script);
    Ok(())
}

/// Prints or writes the manual.
pub fn man(args: &ManArgs) -> Result<()> {
    let Some(directory) = &args.out else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(help::command()).render(&mut page);
        rendered.map_err(|e| Error::io("write", &PathBuf::from("the manual"), e))?;
        ui::print_raw(&page);
        return Ok(());
    };
    std::fs::create_dir_all(directory).map_err(|e| Error::io("create", directory, e))?;
    clap_mangen::generate_to(help::command(), directory).map_err(|e| Error::io("write", directory, e))?;
    ui::print_path(directory);
    Ok(())
}
