//! This program and another one in turn, so that whatever else the machine does hits both alike.
//!
//! Each round starts both as processes of their own, the one that goes first changing from round to round. If the other
//! prints a line of JSON with `ms_per_image` or `seconds`, what both programs measured themselves is compared; else the
//! time of the whole processes.

use super::{BenchArgs, spread_lines, warn_of};
use crate::spread::Spread;
use crate::{machine, ui};
use dyweight::{Error, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a program may print of itself, and how many seconds its unit has.
const OWN_CLOCKS: [(&str, f64); 2] = [("ms_per_image", 1e-3), ("seconds", 1.0)];

/// Measures both and says which is faster.
pub fn run(args: &BenchArgs, command: &str) -> Result<()> {
    let mut progress = ui::Progress::new("measuring", 2 * args.rounds);
    let mut made: [Vec<Outcome>; 2] = Default::default();
    for round in 0..args.rounds {
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            ui::go_on()?;
            let outcome = if side == 0 {
                Outcome::of(&mut ourselves()?, "dyweight bench")
            } else {
                Outcome::of(&mut shell(command), command)
            };
            made[side].push(outcome?);
            progress.add(1, "");
        }
    }
    progress.finish();
    let clock = OWN_CLOCKS.iter().find(|(key, _)| made.iter().flatten().all(|o| o.printed[*key].as_f64().is_some()));
    let [ours, theirs] = made.map(|outcomes| {
        let mut times = Spread::default();
        outcomes.iter().for_each(|o| {
            times.add(clock.map_or(o.seconds, |(key, unit)| unit * o.printed[*key].as_f64().unwrap_or(f64::NAN)))
        });
        times
    });
    let measured = clock.map_or("whole processes", |(key, _)| key);
    let (ratio, error) = theirs.ratio(&ours);
    if args.json {
        ui::print_json(&json!({
            "ours": ours.facts(), "theirs": theirs.facts(), "command": command, "measured": measured, "rounds": args.rounds,
            "ratio": ratio, "ratio_error": error, "machine": machine::described(), "load": machine::load(),
            "version": env!("CARGO_PKG_VERSION"),
        }));
        return Ok(());
    }
    for (name, times) in [("dyweight bench", &ours), (command, &theirs)] {
        ui::print(name);
        spread_lines(times).iter().for_each(|line| ui::print(line));
    }
    let (word, ratio, error) =
        if ratio >= 1.0 { ("faster", ratio, error) } else { ("slower", 1.0 / ratio, error / (ratio * ratio)) };
    ui::print(&format!(
        "dyweight is {ratio:.2} ± {error:.2} times {word}, by {measured}, {} rounds in turn",
        args.rounds
    ));
    ui::print(&format!("  machine            {}", machine::described()));
    [&ours, &theirs].into_iter().for_each(warn_of);
    Ok(())
}

/// What a process did.
struct Outcome {
    seconds: f64,
    /// The last line of JSON it printed.
    printed: Value,
}

impl Outcome {
    fn of(command: &mut Command, name: &str) -> Result<Self> {
        let started = Instant::now();
        let output = command.stdin(Stdio::null()).output();
        let seconds = started.elapsed().as_secs_f64();
        let refuse = |problem: String| Error::conflict(problem, "run it by itself to see what is wrong");
        let output = output.map_err(|e| refuse(format!("'{name}' cannot be started: {e}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            return Err(refuse(format!("'{name}' failed ({}): {last}", output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut objects =
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object);
        Ok(Self { seconds, printed: objects.next_back().unwrap_or_default() })
    }
}

fn shell(command: &str) -> Command {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut process = Command::new(shell);
    process.arg(flag).arg(command);
    process
}

/// This very command without what is about the other one.
fn ourselves() -> Result<Command> {
    let program = std::env::current_exe().map_err(|e| Error::io("find", std::path::Path::new("dyweight"), e))?;
    let mut process = Command::new(program);
    process.args(own_words(std::env::args_os().skip(1))).arg("--json");
    Ok(process)
}

fn own_words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match text.split('=').next().unwrap_or_default() {
            "--against" | "--rounds" if !text.contains('=') => drop(words.next()),
            "--against" | "--rounds" | "--json" | "-v" | "--verbose" => {}
            _ => kept.push(word),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_run_knows_nothing_of_the_other() {
        let words = "bench --model fashion --against x --batch 4 --rounds=3 --json".split(' ').map(OsString::from);
        assert_eq!(own_words(words), ["bench", "--model", "fashion", "--batch", "4"]);
    }
}
