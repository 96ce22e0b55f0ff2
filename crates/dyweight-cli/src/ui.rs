//! What a person sees: progress, warnings, errors, tables.

use crate::processes;
use dyweight::comm::Comm;
use dyweight::{Error, Result};
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One process of a job speaks for all; the others are silent.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing but errors is shown from now on.
pub fn be_silent() {
    SILENT.store(true, Ordering::SeqCst);
}

fn is_silent() -> bool {
    SILENT.load(Ordering::SeqCst)
}

/// Prints an error with its hint and gives the exit code.
pub fn fail(error: &Error) -> u8 {
    eprintln!("error: {error}");
    if let Some(hint) = error.hint() {
        eprintln!("hint: {hint}");
    }
    exit_code(error)
}

/// How a process ends that failed so.
pub fn exit_code(error: &Error) -> u8 {
    if error.is_users() { 2 } else { 1 }
}

/// Prints a line for the person at the terminal.
pub fn say(line: &str) {
    if !is_silent() {
        eprintln!("{line}");
    }
}

/// Prints a warning.
pub fn warn(message: &str) {
    say(&format!("warning: {message}"));
}

/// Prints a line of data. A reader that has gone away is not an error.
pub fn print(line: &str) {
    if !is_silent() {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// Prints a JSON value as one line of data.
pub fn print_json(value: &serde_json::Value) {
    print(&value.to_string());
}

/// True once the user asked to stop. The first Ctrl-C asks; the second ends the process.
pub fn stop_requested() -> bool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let handler = || {
            if STOP.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            say("\nstopping at the next step; once more ends at once");
        };
        // Without a handler Ctrl-C simply ends the process.
        let _ = ctrlc::set_handler(handler);
    });
    STOP.load(Ordering::SeqCst)
}

/// One line of progress on a terminal; nothing anywhere else.
pub struct Progress {
    what: String,
    total: usize,
    done: usize,
    started: Instant,
    drawn: Option<Instant>,
    on: bool,
}

impl Progress {
    /// `total` things to do.
    pub fn new(what: &str, total: usize) -> Self {
        let on = std::io::stderr().is_terminal() && !is_silent();
        Self { what: what.into(), total, done: 0, started: Instant::now(), drawn: None, on }
    }

    /// `n` more are done; `note` is shown behind the count.
    pub fn add(&mut self, n: usize, note: &str) {
        self.done += n;
        let due = self.drawn.is_none_or(|t| t.elapsed() > Duration::from_millis(100)) || self.done >= self.total;
        if !self.on || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.done as f64 / seconds.max(1e-9);
        let left = (self.total.saturating_sub(self.done)) as f64 / rate.max(1e-9);
        let width = 24 * self.done / self.total.max(1);
        let bar: String = (0..24).map(|i| if i < width { '█' } else { '░' }).collect();
        let (done, total) = (self.done, self.total);
        eprint!("\r\x1b[2K{} {bar} {done}/{total} · {rate:.1}/s · {} left {note}", self.what, duration(left));
    }

    /// Clears the line.
    pub fn finish(self) {
        if self.on {
            eprint!("\r\x1b[2K");
        }
    }
}

/// Seconds as a person would say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Prints columns, aligned; the first row is the heading.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        print(cells.join("  ").trim_end());
    }
}

/// Uses `threads` threads for everything that follows; if nothing is said, processes on the same cores share them.
pub fn set_threads(threads: Option<usize>, comm: &dyn Comm) -> Result<()> {
    let Some(threads) = threads.or_else(|| processes::fair_threads(comm)) else { return Ok(()) };
    let bad = |expected: String| Error::BadValue { name: "threads", value: threads.to_string(), expected };
    if !(1..=1024).contains(&threads) {
        return Err(bad("must lie between 1 and 1024".into()));
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|e| bad(e.to_string()))
}
