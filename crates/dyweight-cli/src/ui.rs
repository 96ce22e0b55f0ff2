//! What a person sees: progress, warnings, errors, tables.
//!
//! Both streams end here. Nobody listening on standard error is no reason to stop a run; data that standard output
//! would not take is remembered and makes the run fail at its end, when its files are written. No text that came from a
//! file or a name makes a terminal do anything.

pub use crate::progress::Progress;
use crate::{colour, flags, machine, processes};
use dyweight::comm::Comm;
use dyweight::error::counted;
use dyweight::sample::Show;
use dyweight::{Error, Result};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// One process of a job speaks for all; the others are silent.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing but errors is shown from now on.
pub fn be_silent() {
    SILENT.store(true, Ordering::SeqCst);
}

fn is_silent() -> bool {
    SILENT.load(Ordering::SeqCst)
}

/// The person wants no news.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Nothing but data, warnings and errors is shown from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::SeqCst);
}

/// True if there is news to show, and someone to see it.
pub fn has_news() -> bool {
    !is_silent() && !QUIET.load(Ordering::SeqCst)
}

/// The person wants to know more.
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Details are shown too from now on.
pub fn be_verbose() {
    VERBOSE.store(true, Ordering::SeqCst);
}

/// True while a line of progress stands at the cursor.
static DRAWN: AtomicBool = AtomicBool::new(false);
/// To the start of the line, which is emptied.
const CLEAR: &str = "\r\x1b[2K";

/// Writes to standard error, if anybody is there to read it; not behind a line of progress.
fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    let clear = if DRAWN.swap(false, Ordering::SeqCst) { CLEAR } else { "" };
    let _ = stderr.write_all(format!("{clear}{text}").as_bytes());
}

/// Around what the terminal is to cut at its edge instead of going on below.
const CUT: [&str; 2] = ["\x1b[?7l", "\x1b[?7h"];

/// Draws a line over the one that was drawn before.
pub fn draw_line(line: &str) {
    let mut stderr = io::stderr().lock();
    DRAWN.store(true, Ordering::SeqCst);
    // A terminal that cuts keeps the very last letter at its edge. Wide letters are left to it.
    let width = terminal_size::terminal_size_of(io::stderr()).map_or(usize::MAX, |(width, _)| usize::from(width.0));
    let line = whole_parts(line, width);
    let _ = stderr.write_all(format!("{CLEAR}{}{line}{}", CUT[0], CUT[1]).as_bytes());
}

/// As much of a line as fits: whole parts between dots, whole words where there are none, never a part of a number.
fn whole_parts(line: &str, width: usize) -> &str {
    let Some((end, _)) = line.char_indices().nth(width) else { return line };
    let (fits, rest) = line.split_at(end);
    match rest.starts_with(" · ") {
        true => fits,
        false => &line[..fits.rfind(" · ").or_else(|| fits.rfind(' ')).unwrap_or(end)],
    }
}

/// Removes the line that was drawn.
pub fn clear_line() {
    tell("");
}

/// Why standard output took no more.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes to standard output; after a failure nothing more.
fn give(data: &[u8]) {
    let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_silent() && lost.is_none() {
        *lost = io::stdout().lock().write_all(data).err();
    }
}

/// Tells data that did not arrive from a reader that had enough, as `head` does.
pub fn delivered() -> io::Result<()> {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner).take();
    match lost.map_or_else(|| io::stdout().flush(), Err) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The text without what a terminal would obey.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n';
    if !text.contains(obeyed) {
        return text.into();
    }
    text.chars().map(|c| if obeyed(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Prints an error with its hint and gives the exit code.
pub fn fail(error: &Error) -> u8 {
    complain(&error.to_string(), error.hint().as_deref());
    exit_code(error)
}

/// Prints what went wrong, and what to try.
pub fn complain(problem: &str, hint: Option<&str>) {
    let hint = hint.map_or(String::new(), |hint| labelled("hint:", colour::CYAN, &flags::written(hint)));
    tell(&format!("{}{hint}", labelled("error:", colour::RED, &flags::written(problem))));
}

/// How a process ends that failed so.
pub fn exit_code(error: &Error) -> u8 {
    if error.is_users() { 2 } else { 1 }
}

/// Prints a line for the person at the terminal.
pub fn say(line: &str) {
    if has_news() {
        tell(&sentences(line, 0));
    }
}

/// Lines for a person, cut between words where the terminal ends and gone on below themselves, after `before` letters.
fn sentences(text: &str, before: usize) -> String {
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    let line = |line: &str| match width {
        Some(width) if line.contains(": dyweight ") => fold_command(line, width),
        Some(width) => fold(line, before, width).join("\n"),
        None => line.to_string(),
    };
    harmless(text).split('\n').map(|text| line(text) + "\n").collect()
}

/// The same under a label.
fn labelled(label: &'static str, style: colour::Style, text: &str) -> String {
    let said = sentences(&format!("{label} {text}"), label.len() + 1);
    format!("{}{}", colour::on_stderr(label, style), said.strip_prefix(label).unwrap_or(&said))
}

/// Prints a line for someone who wants to know more; `line` is made only then.
pub fn detail(line: impl FnOnce() -> String) {
    if VERBOSE.load(Ordering::SeqCst) {
        say(&line());
    }
}

/// Prints a warning.
pub fn warn(message: &str) {
    if !is_silent() {
        tell(&labelled("warning:", colour::YELLOW, &flags::written(message)));
    }
}

/// Says what a person should know of another process, whichever process notices.
#[cfg(feature = "mpi")]
pub fn note(message: &str) {
    tell(&labelled("warning:", colour::YELLOW, message));
}

/// Says of prompts that are longer than a model's encoder reads.
pub fn warn_of_prompts(show: &Show) {
    show.prompts().and_then(|prompts| prompts.warning()).iter().for_each(|warning| warn(warning));
}

/// Prints a line of data. A reader that has gone away is not an error.
pub fn print(line: &str) {
    give(format!("{}\n", harmless(line)).as_bytes());
}

/// Prints the name of a file as it is, whatever bytes it is made of: the next program is to find the file.
pub fn print_path(path: &Path) {
    give(&[path.as_os_str().as_encoded_bytes(), b"\n"].concat());
}

/// Prints bytes made here, as they are.
pub fn print_raw(bytes: &[u8]) {
    give(bytes);
}

/// Prints a JSON value as one line of data.
pub fn print_json(value: &serde_json::Value) {
    print(&value.to_string());
}

/// An error once the user asked to stop: what a watcher answers.
pub fn go_on() -> Result<()> {
    if stop_requested() { Err(Error::Cancelled) } else { Ok(()) }
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
            say("stopping at the next step; once more ends at once");
        };
        // Without a handler Ctrl-C simply ends the process.
        let _ = ctrlc::set_handler(handler);
    });
    STOP.load(Ordering::SeqCst)
}

/// Network calls of a sample, of which an evaluation costs `each`: "6 calls (3 evaluations, with guidance two calls
/// each)".
pub fn calls(nfe: usize, each: usize) -> String {
    let calls = counted(nfe, "call");
    if each < 2 {
        return calls;
    }
    format!("{calls} ({}, with guidance {each} calls each)", counted(nfe / each, "evaluation"))
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

/// Columns that fit beside each other.
pub fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| usize::from(width.0))
}

/// A table of names and columns as tables that are no wider than `width`, each with all names and as many columns as
/// fit.
pub fn blocks(names: Vec<String>, columns: Vec<Vec<String>>, width: usize) -> Vec<Vec<Vec<String>>> {
    let widest = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let rows = |columns: &[Vec<String>]| -> Vec<Vec<String>> {
        let row = |i: usize| std::iter::once(&names).chain(columns).map(|cells| cells[i].clone()).collect();
        (0..names.len()).map(row).collect()
    };
    let (mut blocks, mut first, mut used) = (Vec::new(), 0, widest(&names));
    for (i, column) in columns.iter().enumerate() {
        used += 2 + widest(column);
        if used > width && i > first {
            blocks.push(rows(&columns[first..i]));
            (first, used) = (i, widest(&names) + 2 + widest(column));
        }
    }
    blocks.push(rows(&columns[first..]));
    blocks
}

/// Prints columns, aligned; the first row is the heading.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let before: usize = widths.iter().rev().skip(1).map(|w| w + 2).sum();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        let (joined, style) = (cells.join("  "), if number == 0 { colour::BOLD } else { colour::PLAIN });
        for line in folded(harmless(joined.trim_end()).into_owned(), before) {
            give(format!("{}\n", colour::on_stdout(&line, style)).as_bytes());
        }
    }
}

/// A row cut between words where the terminal ends, and gone on below its last column, which begins after `before`
/// letters. Into a file nothing is cut.
fn folded(row: String, before: usize) -> Vec<String> {
    let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    width.map_or_else(|| vec![row.clone()], |width| fold(&row, before, width))
}

/// A command is there to be copied: it is cut before its options alone, where a shell goes on.
fn fold_command(line: &str, width: usize) -> String {
    let (mut lines, mut last) = (String::new(), String::new());
    for (index, part) in line.split(" --").enumerate() {
        let part = if index == 0 { part.to_string() } else { format!(" --{part}") };
        if !last.is_empty() && last.chars().count() + part.chars().count() + 2 > width {
            lines += &format!("{last} \\\n");
            last = "   ".into();
        }
        last += &part;
    }
    lines + &last
}

fn fold(row: &str, before: usize, width: usize) -> Vec<String> {
    if row.chars().count() <= width {
        return vec![row.into()];
    }
    let start = row.char_indices().nth(before).map_or(row.len(), |(at, _)| at);
    let (head, rest) = row.split_at(start);
    // Where there is little room beside the others, it begins on a line of its own.
    let (before, mut lines) = match before > 0 && before + 20 > width {
        true => (4, vec![head.trim_end().to_string(), " ".repeat(4)]),
        false => (before, vec![head.to_string()]),
    };
    for word in rest.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line > before && line + 1 + word.chars().count() > width {
            lines.push(" ".repeat(before));
        }
        if let Some(line) = lines.last_mut() {
            if line.chars().count() > before {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// More threads than this for each core only get in each other's way: a thousand on two cores took half a minute for
/// what eight do in a second.
const MOST_THREADS_PER_CORE: usize = 4;

/// Uses `threads` threads for everything that follows; if nothing is said, processes on the same cores share them.
pub fn set_threads(threads: Option<usize>, comm: &dyn Comm) -> Result<()> {
    let bad = |value: usize, expected: String| Error::bad_value("threads", value, expected);
    if let Some(threads) = threads.filter(|n| !(1..=1024).contains(n)) {
        return Err(bad(threads, "must lie between 1 and 1024".into()));
    }
    let Some(asked) = threads.or_else(|| processes::fair_threads(comm)).or_else(threads_of_environment) else {
        return Ok(());
    };
    let cores = machine::cores();
    let used = asked.min(MOST_THREADS_PER_CORE * cores);
    if used < asked {
        say(&format!("{asked} threads on {cores} cores would get in each other's way: {used} are used"));
    }
    rayon::ThreadPoolBuilder::new().num_threads(used).build_global().map_err(|e| bad(used, e.to_string()))
}

/// What rayon would use by itself; what is no number stands for nothing, there as here.
fn threads_of_environment() -> Option<usize> {
    std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::{blocks, calls, fold, fold_command, whole_parts};

    #[test]
    fn a_table_too_wide_goes_on_in_another_with_the_same_names() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        let columns = || ["3 0.0250±0.0003±0.0009", "5 0.0165±0.0002±0.0004", "7 0.1"].map(words).to_vec();
        let shown = |width| -> Vec<Vec<String>> {
            let joined = |block: Vec<Vec<String>>| block.iter().map(|row| row.join("  ")).collect();
            blocks(words("calls DyWeight"), columns(), width).into_iter().map(joined).collect()
        };
        assert_eq!(shown(80), [["calls  3  5  7", "DyWeight  0.0250±0.0003±0.0009  0.0165±0.0002±0.0004  0.1"]]);
        assert_eq!(shown(40).len(), 2, "{:?}", shown(40));
        assert_eq!(shown(40)[1], ["calls  5  7", "DyWeight  0.0165±0.0002±0.0004  0.1"]);
        assert!(shown(40).iter().flatten().all(|line| line.chars().count() <= 40));
        assert_eq!(shown(1).len(), 3, "one column at least");
    }

    #[test]
    fn a_command_is_cut_where_a_shell_goes_on() {
        let line = "next: dyweight sample --model mixture --prompt 'a cat' --weights five.json";
        assert_eq!(fold_command(line, 200), line);
        let cut = "next: dyweight sample --model mixture \\\n    --prompt 'a cat' --weights five.json";
        assert_eq!(fold_command(line, 42), cut);
        assert!(cut.lines().all(|line| line.chars().count() <= 42));
    }

    #[test]
    fn a_line_of_progress_is_cut_between_its_parts() {
        let line = "training 3 calls 8/8 · 0 ms left ████ · 14.0/s · loss 6.38e-4";
        assert_eq!(whole_parts(line, 200), line);
        assert_eq!(whole_parts(line, 58), "training 3 calls 8/8 · 0 ms left ████ · 14.0/s");
        assert_eq!(whole_parts(line, 46), "training 3 calls 8/8 · 0 ms left ████ · 14.0/s");
        assert_eq!(whole_parts(line, 45), "training 3 calls 8/8 · 0 ms left ████");
        assert_eq!(whole_parts("sampling 50/100", 10), "sampling");
    }

    #[test]
    fn calls_under_guidance_say_how_many_evaluations_they_are() {
        assert_eq!([calls(1, 1), calls(3, 1)], ["1 call", "3 calls"]);
        assert_eq!(calls(6, 2), "6 calls (3 evaluations, with guidance 2 calls each)");
    }

    #[test]
    fn a_long_last_column_goes_on_below_itself() {
        let row = "fashion    28x28 grey images of clothes in ten classes";
        assert_eq!(fold(row, 11, 40), ["fashion    28x28 grey images of clothes", "           in ten classes"]);
        assert_eq!(fold(row, 11, 80), [row]);
        let below = ["fashion", "    28x28 grey images of", "    clothes in ten", "    classes"];
        assert_eq!(fold(row, 11, 25), below, "there is no room beside it");
        assert_eq!(fold("a sentence of several words", 0, 14), ["a sentence of", "several words"]);
        assert_eq!(fold("error: it is so", 7, 30), ["error: it is so"]);
        assert_eq!(
            fold("warning: it is so and not otherwise", 9, 30),
            ["warning: it is so and not", "         otherwise"]
        );
    }
}
