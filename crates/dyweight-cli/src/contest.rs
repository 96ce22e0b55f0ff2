//! What `compare`, `study` and `quickstart` have in common: progress, files, the table.

use crate::files::text;
use crate::ui;
use clap::Args;
use dyweight::files::{NamedPath, journal, keep_apart};
use dyweight::spec::Seeds;
use dyweight::study::contest::{Experiment, Measure, Results, View, Watch, read, run};
use dyweight::study::paper::Study;
use dyweight::study::report::html::{Page, Verdict};
use dyweight::train::comm::Comm;
use dyweight::{Error, Result};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Where results go.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Directory for records, pictures and the report; what is on record there is not done again
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Draw the report from what is on record, computing nothing
    #[arg(long)]
    pub render_only: bool,
    /// Leave times out of the report, which then is the same bytes for the same results
    #[arg(long)]
    pub no_times: bool,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    pub threads: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl OutputArgs {
    /// The directory, or the one that is usual.
    pub fn directory(&self, usual: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    /// The directory, if no input would be lost in it.
    pub fn directory_apart_from(&self, usual: &str, inputs: &[NamedPath<'_>]) -> Result<PathBuf> {
        let directory = self.directory(usual);
        let files = WRITTEN.map(|name| directory.join(name));
        keep_apart(&files.each_ref().map(|file| ("--out", file.as_path())), inputs)?;
        Ok(directory)
    }

    /// Whether the report says how long things took.
    pub fn shows_times(&self) -> bool {
        !self.no_times
    }
}

/// What a report is made of, beside its pictures.
const WRITTEN: [&str; 8] = [
    journal::FILE,
    "report.html",
    "report.md",
    "frechet.csv",
    "teacher-distance.csv",
    "clip.csv",
    "hps.csv",
    "image-reward.csv",
];

/// Error bars need samples.
pub fn check_count(seeds: &Seeds) -> Result<()> {
    if seeds.len() >= 2 {
        return Ok(());
    }
    let expected = "an error bar needs at least two samples".into();
    Err(Error::BadValue { name: "seeds", value: seeds.to_string(), expected })
}

/// This very command, to be repeated; without what changes nothing.
pub fn command_line() -> String {
    let quoted = |word: String| match word.chars().any(|c| c.is_whitespace() || "'\"$&|;<>()*?#~".contains(c)) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word,
    };
    let words = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned());
    let words = words.filter(|w| !matches!(w.as_str(), "--render-only" | "--json" | "--no-times"));
    std::iter::once("dyweight".into()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

/// Shows what is being done, and when all of it will be.
#[derive(Default)]
struct ContestShow {
    progress: Option<ui::Progress>,
    /// When the first entry that was not on record began, and how many were finished then.
    began: Option<(Instant, usize)>,
}

impl ContestShow {
    /// When all entries will be done, if those left take as long as those made here.
    fn all_done(&mut self, done: usize, all: usize) -> Option<Instant> {
        let (began, first) = *self.began.get_or_insert((Instant::now(), done));
        let made = u32::try_from(done - first).ok().filter(|made| *made > 0)?;
        let left = u32::try_from(all.saturating_sub(done)).ok()?;
        Instant::now().checked_add((began.elapsed() / made).checked_mul(left)?)
    }
}

impl Watch for ContestShow {
    fn begin(&mut self, what: &str, steps: usize, done: usize, all: usize) {
        if let Some(old) = self.progress.take() {
            old.finish();
        }
        let progress = ui::Progress::new(&format!("[{}/{all}] {what}", (done + 1).min(all)), steps);
        self.progress = Some(progress.within(self.all_done(done, all)));
    }

    fn advance(&mut self, steps: usize) -> ControlFlow<Error> {
        if let Some(progress) = &mut self.progress {
            progress.add(steps, "");
        }
        if ui::stop_requested() { ControlFlow::Break(Error::Cancelled) } else { ControlFlow::Continue(()) }
    }
}

/// Runs what is missing, or reads what there is. None where another process makes the report.
pub fn results(
    experiment: &Experiment,
    out: &Path,
    args: &OutputArgs,
    comm: &Arc<dyn Comm>,
) -> Result<Option<Results>> {
    if args.render_only && !comm.is_first() {
        return Ok(None);
    }
    if args.render_only {
        return read(experiment, out).map(Some);
    }
    let mut show = ContestShow::default();
    let results = run(experiment, out, comm, &mut show);
    if let Some(progress) = show.progress.take() {
        progress.finish();
    }
    if let Err(Error::Cancelled) = results {
        ui::say("stopped; the same command goes on from here");
    }
    results.map(|results| comm.is_first().then_some(results))
}

/// A claim with its verdict and the sentence behind it.
pub type Answer = (String, Verdict, String);

/// Draws and writes a study's report, and says what was found.
pub fn report_study(study: &Study, view: &View<'_>, out: &Path, args: &OutputArgs) -> Result<()> {
    let page = study.page(view, command_line(), args.shows_times())?;
    let answers: Vec<Answer> = study.findings(view).into_iter().map(|(by, f)| (by, f.verdict, f.sentence)).collect();
    report(view, &page, &answers, out, args)
}

/// Writes the report and says what was found.
pub fn report(view: &View<'_>, page: &Page, answers: &[Answer], out: &Path, args: &OutputArgs) -> Result<()> {
    let html = view.write(page, out)?;
    if args.json {
        let scores: Vec<_> = view.results.scores.values().collect();
        let answers: Vec<_> = answers
            .iter()
            .map(|(by, v, s)| json!({ "by": by.trim_end_matches(": "), "verdict": v.word(), "sentence": s }))
            .collect();
        ui::print_json(&json!({ "report": text(&html), "scores": scores, "answers": answers }));
        return require_numbers(view);
    }
    for measure in view.all_measures() {
        print_table(view, measure);
    }
    for (by, verdict, sentence) in answers {
        ui::say(&format!("{} {} — {by}{sentence}", verdict.sign(), verdict.word()));
    }
    ui::print_path(&html);
    require_numbers(view)
}

/// A comparison in which nobody has numbers has failed.
fn require_numbers(view: &View<'_>) -> Result<()> {
    let scores = || view.experiment.entries.iter().filter_map(|e| view.results.score(view.experiment, e));
    match scores().find_map(|score| score.failed.clone()) {
        Some(first) if scores().all(|score| score.failed.is_some()) => Err(Error::AllDiverged { first }),
        _ => Ok(()),
    }
}

fn print_table(view: &View<'_>, measure: Measure) {
    let mut head = vec![measure.name().to_string()];
    head.extend(view.columns().iter().map(|c| c.to_string()));
    let mut rows = vec![head];
    for row in view.rows() {
        let cell = |column: &&str| match view.score(row, column) {
            Some(score) if score.failed.is_some() => "diverged".into(),
            Some(score) => measure.of(score).map_or("–".into(), |e| e.to_string()),
            None => "–".into(),
        };
        rows.push(std::iter::once(row.to_string()).chain(view.columns().iter().map(cell)).collect());
    }
    ui::table(&rows);
    ui::print("");
}
