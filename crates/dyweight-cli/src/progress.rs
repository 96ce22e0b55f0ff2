//! How far the work is: a bar on a terminal, now and then a line anywhere else.
//!
//! A thread of its own draws, so that something is seen within a second whatever the work is doing, and the work is
//! never held up by whoever reads. The line is never wider than the terminal, which is told to cut it: what has wrapped
//! cannot be drawn over. So what matters most comes first.

use crate::ui;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two pictures on a terminal.
const FRAME: Duration = Duration::from_millis(100);
/// The first line of a log: what takes less needs none.
const FIRST_LINE: Duration = Duration::from_millis(800);
/// Cells of a bar.
const CELLS: usize = 20;
/// Between two lines of a log.
const NEXT_LINE: Duration = Duration::from_secs(15);

/// Work under way. It is over when this is dropped.
pub struct Progress {
    state: Arc<Mutex<State>>,
    painter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// `total` things to do.
    pub fn new(what: &str, total: usize) -> Self {
        let (what, started) = (ui::harmless(what).into_owned(), Instant::now());
        let state = State { what, total, done: 0, begun: 0.0, skipped: 0, started, share: None, note: String::new() };
        let state = Arc::new(Mutex::new(state));
        let painter = if ui::has_news() { paint(state.clone()) } else { None };
        Self { state, painter }
    }

    /// The next piece of a longer run: another name, another count, the same line.
    pub fn next(&mut self, what: &str, total: usize, share: Share) {
        let mut state = self.state();
        (state.what, state.total, state.started) = (ui::harmless(what).into_owned(), total, Instant::now());
        (state.done, state.begun, state.skipped, state.share) = (0, 0.0, 0, Some(share));
        state.note.clear();
    }

    /// Shown behind the count.
    pub fn note(&mut self, note: &str) {
        self.state().note = ui::harmless(note).into_owned();
    }

    /// `n` were done before: they count, but say nothing about the speed.
    pub fn skip(&mut self, n: usize) {
        let mut state = self.state();
        (state.done, state.skipped, state.started) = (n, n, Instant::now());
    }

    /// `n` more are done; `note` is shown behind the count.
    pub fn add(&mut self, n: usize, note: &str) {
        let mut state = self.state();
        state.done += n;
        state.begun = 0.0;
        state.note = ui::harmless(note).into_owned();
    }

    /// For those who work on what [`Progress::add`] will count.
    pub fn under_way(&self) -> UnderWay {
        UnderWay(self.state.clone())
    }

    /// Clears the line.
    pub fn finish(self) {}

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// What is being done and not yet done, in parts of a thing: a large batch is seen to go on.
pub struct UnderWay(Arc<Mutex<State>>);

impl UnderWay {
    /// So much of the things more.
    pub fn add(&self, things: f64) {
        locked(&self.0).begun += things;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((work, painter)) = self.painter.take() {
            drop(work);
            let _ = painter.join();
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws until the work is over. A machine that has no thread to spare shows nothing.
fn paint(state: Arc<Mutex<State>>) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (work, is_over) = channel::<()>();
    let is_terminal = std::io::stderr().is_terminal();
    let draw = move || {
        let mut pause = if is_terminal { Duration::ZERO } else { FIRST_LINE };
        while is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            if is_terminal {
                ui::draw_line(&locked(&state).bar());
                pause = FRAME;
            } else {
                ui::say(&locked(&state).line());
                pause = NEXT_LINE;
            }
        }
        ui::clear_line();
    };
    let painter = std::thread::Builder::new().name("progress".into()).spawn(draw).ok()?;
    Some((work, painter))
}

/// What a piece is of a longer run, in any unit of work: of that run are then the percentage and the time.
#[derive(Clone, Copy)]
pub struct Share {
    /// When the run began.
    pub began: Instant,
    /// Done since then, before this piece.
    pub before: f64,
    /// This piece.
    pub own: f64,
    /// All there was to do.
    pub all: f64,
}

impl Share {
    /// Of the run, with `fraction` of this piece done.
    fn fraction(&self, fraction: f64) -> f64 {
        ((self.before + self.own * fraction) / self.all.max(1.0)).min(1.0)
    }

    /// Seconds to the end of the run, with `fraction` of this piece done; none before there is enough to judge by.
    fn left(&self, fraction: f64) -> Option<f64> {
        let (done, seconds) = (self.before + self.own * fraction, self.began.elapsed().as_secs_f64());
        let is_enough = seconds > 0.5 && (self.before > 0.0 || fraction > 0.05);
        (is_enough && done > 0.0).then(|| seconds * (self.all - done).max(0.0) / done)
    }
}

struct State {
    what: String,
    total: usize,
    done: usize,
    /// Of those after, in parts.
    begun: f64,
    /// Done before, by a run that was interrupted.
    skipped: usize,
    started: Instant,
    /// What this is of a longer run.
    share: Option<Share>,
    note: String,
}

impl State {
    /// Things per second, once there is one.
    fn rate(&self) -> Option<f64> {
        let made = self.reached() - self.skipped as f64;
        (made > 0.0).then(|| made / self.started.elapsed().as_secs_f64().max(1e-9))
    }

    /// Things done, with parts of those under way.
    fn reached(&self) -> f64 {
        (self.done as f64 + self.begun).min(self.total as f64)
    }

    /// Of this work.
    fn fraction(&self) -> f64 {
        self.reached() / self.total.max(1) as f64
    }

    /// Of all: of the run, where this is a part.
    fn of_all(&self) -> f64 {
        self.share.map_or(self.fraction(), |share| share.fraction(self.fraction()))
    }

    /// The same in whole percents.
    fn percent(&self) -> usize {
        (100.0 * self.of_all() + 1e-9) as usize
    }

    /// Seconds to the end of this work.
    fn left(&self) -> Option<f64> {
        self.rate().map(|rate| (self.total as f64 - self.reached()) / rate)
    }

    /// The time left, of what the percentage is of.
    fn left_text(&self) -> Option<String> {
        let left = match &self.share {
            Some(share) => share.left(self.fraction()),
            None => self.left(),
        };
        left.map(|left| format!("{} left", ui::duration(left)))
    }

    /// For a log. A part of a longer run has no count of its own: there is one percentage, and it is the run's.
    fn line(&self) -> String {
        let left = self.left_text().map_or(String::new(), |left| format!(", {left}"));
        let note = if self.note.is_empty() { String::new() } else { format!(" {}", self.note) };
        let (what, percent) = (&self.what, self.percent());
        match self.share {
            Some(_) => format!("{what}: {percent} %{left}{note}"),
            None => format!("{what}: {} of {} ({percent} %){left}{note}", self.reached() as usize, self.total),
        }
    }

    /// For a terminal.
    fn bar(&self) -> String {
        let full = ((CELLS as f64 * self.of_all()) as usize).min(CELLS);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(CELLS - full));
        let left = self.left_text().map_or(String::new(), |left| format!(" · {left}"));
        let (what, note) = (&self.what, &self.note);
        if self.share.is_some() {
            return format!("{what} {} %{left} {bar} {note}", self.percent()).trim_end().into();
        }
        let rate = self.rate().map_or(String::new(), |rate| format!(" · {rate:.1}/s"));
        format!("{what} {}/{}{left} {bar}{rate} {note}", self.reached() as usize, self.total).trim_end().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(what: &str, note: &str) -> State {
        let started = Instant::now() - Duration::from_secs(10);
        State {
            what: what.into(),
            total: 100,
            done: 50,
            begun: 0.0,
            skipped: 25,
            started,
            share: None,
            note: note.into(),
        }
    }

    #[test]
    fn what_matters_comes_first_in_a_bar_that_may_be_cut() {
        let bar = state("training 3 calls", "· loss 1.2e-3").bar();
        assert!(bar.starts_with("training 3 calls 50/100 · 20.0 s left ██████████░░░░░░░░░░ · 2.5/s · loss"), "{bar}");
    }

    #[test]
    fn a_resumed_run_counts_from_where_it_is() {
        // 25 in ten seconds, 50 to go.
        let seconds = state("training", "").left().unwrap();
        assert!((19.0..21.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_line_of_a_log_has_the_fraction_and_the_time_left() {
        let mut resumed = state("sampling", "");
        assert!(resumed.line().starts_with("sampling: 50 of 100 (50 %), 20.0 s left"), "{}", resumed.line());
        // Half of a piece of 2, after 1 of 34 was done: 2 in ten seconds, 32 to go.
        let began = Instant::now() - Duration::from_secs(10);
        resumed.share = Some(Share { began, before: 1.0, own: 2.0, all: 34.0 });
        assert!(resumed.line().starts_with("sampling: 5 %, 3 min left"), "of the run: {}", resumed.line());
        assert!(resumed.bar().starts_with("sampling 5 % · 3 min left █░░░"), "{}", resumed.bar());
        resumed.done = resumed.skipped;
        resumed.share = None;
        assert_eq!(resumed.line(), "sampling: 25 of 100 (25 %)");
        // Half way through the next fifty.
        resumed.begun = 25.0;
        assert!(resumed.line().starts_with("sampling: 50 of 100 (50 %), 20.0 s left"), "{}", resumed.line());
    }
}
