//! What `compare`, `study` and `quickstart` have in common: progress, files, the table.

use crate::dry_run::{Gradients, Pace};
use crate::files::{quoted, text};
use crate::progress::Share;
use crate::{machine, ui};
use clap::Args;
use dyweight::comm::Comm;
use dyweight::error::shown;
use dyweight::files::{NamedPath, OutputGuard, atomic, journal};
use dyweight::report::html::{Page, Verdict};
use dyweight::sample::Stop;
use dyweight::spec::Seeds;
use dyweight::study::benchmark::{Entry, Experiment, Measure, Piece, Repeat, Results, View, Watch, read, run};
use dyweight::study::paper::Study;
use dyweight::train::Work;
use dyweight::{Error, Result};
use serde_json::json;
use std::ops::Range;
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
    /// Say what would be done, how many calls and how long it takes; do nothing
    #[arg(long)]
    pub dry_run: bool,
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
        let guard = OutputGuard::new(inputs.iter().copied());
        files.iter().fold(guard, |guard, file| guard.beside("--out", file)).check()?;
        Ok(directory)
    }

    /// Whether the report says how long things took.
    pub fn shows_times(&self) -> bool {
        !self.no_times
    }
}

/// What a report is made of, beside its pictures.
const WRITTEN: [&str; 9] = [
    journal::FILE,
    "report.html",
    "report.md",
    "frechet.csv",
    "frechet-teacher.csv",
    "teacher-distance.csv",
    "clip.csv",
    "hps.csv",
    "image-reward.csv",
];

/// Seeds of trainings.
#[derive(Args, Clone, Default)]
pub struct TrainSeedsArgs {
    /// Train once for each of these seeds and show the spread over trainings beside that over samples: 0-4
    #[arg(long, value_name = "SEEDS", help_heading = "Training")]
    pub train_seeds: Option<String>,
}

impl TrainSeedsArgs {
    /// The seeds; none if nothing was said.
    pub fn seeds(&self) -> Result<Vec<u64>> {
        let renamed = |error| match error {
            Error::BadValue { value, expected, .. } => Error::bad_value("train-seeds", value, expected),
            other => other,
        };
        let parse = |text: &str| Seeds::parse(text).map(|seeds| seeds.iter().collect()).map_err(renamed);
        self.train_seeds.as_deref().map_or(Ok(Vec::new()), parse)
    }
}

/// Error bars need samples.
pub fn check_count(seeds: &Seeds) -> Result<()> {
    if seeds.len() >= 2 {
        return Ok(());
    }
    Err(Error::bad_value("seeds", seeds, "an error bar needs at least two samples"))
}

/// This very command, to be repeated; without what changes nothing.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned());
    let words = words.filter(|w| {
        !matches!(
            w.as_str(),
            "--render-only" | "--json" | "--no-times" | "--dry-run" | "-q" | "--quiet" | "-v" | "--verbose"
        )
    });
    std::iter::once("dyweight".into()).chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ")
}

/// Shows what is being done, and when all of it will be. One line for all pieces, so that many short ones are seen too.
struct BenchmarkShow {
    progress: ui::Progress,
    /// What all of it is; nothing for the comparison itself.
    phase: &'static str,
    began: Instant,
}

impl BenchmarkShow {
    fn new() -> Self {
        Self { progress: ui::Progress::new("preparing", 1), phase: "", began: Instant::now() }
    }

    fn of(&mut self, phase: &'static str) -> &mut Self {
        self.phase = phase;
        self
    }
}

impl Watch for BenchmarkShow {
    fn begin(&mut self, piece: &Piece<'_>) {
        let (done, all) = piece.entries;
        let what = format!("{}[{}/{all}] {}", self.phase, (done + 1).min(all), piece.what);
        // Time is that of the run's own pieces, not of a search before it.
        if piece.before == 0.0 {
            self.began = Instant::now();
        }
        let share = Share { began: self.began, before: piece.before, own: piece.cost, all: piece.all };
        self.progress.next(&what, piece.steps, share);
    }

    fn stop(&self) -> Option<Stop> {
        Some(Arc::new(ui::stop_requested))
    }

    fn skip(&mut self, steps: usize) {
        self.progress.skip(steps);
    }

    fn advance(&mut self, steps: usize) -> Result<()> {
        self.progress.add(steps, "");
        ui::go_on()
    }
}

/// Runs what is missing, or reads what there is; first of all the search for the settings of rows that leave them open.
/// None where another process makes the report.
pub fn results(
    experiment: Experiment,
    out: &Path,
    args: &OutputArgs,
    comm: &Arc<dyn Comm>,
) -> Result<Option<(Experiment, Results)>> {
    if args.render_only && !comm.is_root() {
        return Ok(None);
    }
    if args.render_only {
        // Records of another comparison are refused as such, before those of its search are looked for.
        read(&experiment, out)?;
        let experiment = experiment.searched(&mut |search, folder| read(search, &out.join(folder)))?;
        return read(&experiment, out).map(|results| Some((experiment, results)));
    }
    if args.dry_run {
        return if comm.is_root() { dry_run(experiment, out, args, comm).map(|()| None) } else { Ok(None) };
    }
    // What cannot go there is refused before a search is made.
    if comm.is_root() && out.exists() {
        std::fs::create_dir_all(out).map_err(|e| Error::io("create", out, e))?;
        if out.join(journal::FILE).exists() {
            read(&experiment, out)?;
        }
    }
    // Ctrl-C is heard from here on.
    ui::stop_requested();
    let mut show = BenchmarkShow::new();
    let all = || {
        let experiment =
            experiment.searched(&mut |search, folder| run(search, &out.join(folder), comm, show.of("settings ")))?;
        let results = run(&experiment, out, comm, show.of(""))?;
        Ok((experiment, results))
    };
    let results = all();
    show.progress.finish();
    if let Err(Error::Cancelled) = results {
        ui::say("stopped; the same command goes on from here");
    }
    results.map(|results| comm.is_root().then_some(results))
}

/// Bytes that charts and pages take.
const REPORT: u64 = 12 << 20;

/// Says what would be done.
fn dry_run(experiment: Experiment, out: &Path, args: &OutputArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    atomic::try_folder(out)?;
    let (searching, is_open) = (experiment.search_work()?, experiment.is_open());
    let experiment = experiment.unsearched()?;
    let results = if out.join(journal::FILE).exists() { read(&experiment, out)? } else { Results::none(out) };
    let forecast = experiment.forecast(&results, out, comm)?;
    let (count, known) = (forecast.entries, experiment.entries.len() - forecast.entries);
    let mut what = format!("judge {count} entries on {} samples each", experiment.judging.seeds.len());
    if !forecast.training_records.is_empty() {
        what = format!("train {} solvers, then {what}", forecast.training_records.len());
    }
    if known > 0 {
        what += &format!("; {known} are on record");
    }
    if is_open {
        what += &format!("; settings of handcrafted solvers are chosen on {} other seeds", experiment.search.len());
    }
    let (mut seconds, mut peak) = (0.0, 0);
    for (index, subject) in experiment.subjects.iter().enumerate() {
        // What is learned or judged on this one.
        let own = |entry: &&Entry| entry.subject == index && results.score(&experiment, entry).is_none();
        let judged = experiment.entries.iter().filter(own).map(|e| e.nfe * experiment.judging.seeds.len()).sum();
        let judged = Work { calls: judged, gradients: 0 } + forecast.teachers.get(&index).copied().unwrap_or_default();
        let training_records =
            experiment.records_on(index).into_iter().filter_map(|key| forecast.training_records.get(&key));
        let learned = training_records.fold(Work::default(), |sum, work| sum + *work);
        // What is trained goes on in other batches than what is judged.
        let seeds = experiment.judging.seeds.len();
        let condition = |range: Range<usize>| Ok(experiment.judging.pairs(subject).condition(range.map(|i| i % seeds)));
        // All that is searched for is searched on the first.
        let judged = judged + if index == 0 { searching } else { Work::default() };
        let judged = (judged, experiment.judging.batch.min(seeds));
        for (work, batch) in [judged, (learned, forecast.training_batch)] {
            if work != Work::default() {
                let pace = Pace::of(&subject.model, &condition, batch)?;
                let gradients = if work.gradients > 0 { Gradients::Of(1) } else { Gradients::None };
                seconds += pace.seconds(work)?;
                peak = pace.peak(batch, gradients)?.max(peak);
            }
        }
    }
    let writes = vec![format!("{}: records, solvers, pictures, report.html, report.md", shown(out))];
    let (work, peak) = (forecast.all() + searching, peak + REPORT + experiment.held());
    crate::dry_run::Forecast { what, work, seconds, peak, writes, known: None }.print(args.json);
    Ok(())
}

/// A claim with its verdict and the sentence behind it.
pub type Answer = (String, Verdict, String);

/// How this run is repeated, and where it was made.
pub fn repeat(args: &OutputArgs) -> Repeat {
    repeat_of(args.shows_times())
}

/// The same; with or without times.
pub fn repeat_of(times: bool) -> Repeat {
    let threads = rayon::current_num_threads().to_string();
    let run = vec![("Machine".to_string(), machine::described()), ("Threads".to_string(), threads)];
    Repeat { command: command_line(), times, run }
}

/// Draws and writes a study's report, and says what was found.
pub fn report_study(study: &Study, view: &View<'_>, out: &Path, args: &OutputArgs) -> Result<()> {
    let page = study.page(view, repeat(args))?;
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
        ui::print_json(
            &json!({ "report": text(&html), "result": page.result(), "scores": scores, "answers": answers }),
        );
        return require_numbers(view);
    }
    for measure in view.all_measures() {
        print_table(view, measure);
    }
    if let Some(result) = page.result() {
        ui::say(result);
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
    let cell = |row: &str, column: &str| match view.failure(row, column) {
        Some(_) => "diverged".into(),
        None => view.get(measure, row, column).map_or("–".into(), |e| e.to_string()),
    };
    let column = |column: &&str| {
        let cells = view.rows().into_iter().map(|row| cell(row, column));
        std::iter::once(column.to_string()).chain(cells).collect()
    };
    let names = std::iter::once(measure.name()).chain(view.rows()).map(str::to_string).collect();
    for block in ui::blocks(names, view.columns().iter().map(column).collect(), ui::width()) {
        ui::table(&block);
        ui::print("");
    }
}
