//! What `compare`, `study` and `quickstart` have in common: progress, files, the table.

use crate::ui;
use clap::Args;
use dyweight::checkpoint::atomic;
use dyweight::comm::Comm;
use dyweight::report::html::{Page, Verdict};
use dyweight::spec::Seeds;
use dyweight::study::contest::{Experiment, Measure, Results, View, Watch, read, run};
use dyweight::study::paper::Study;
use dyweight::{Error, Result};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

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

    /// Whether the report says how long things took.
    pub fn shows_times(&self) -> bool {
        !self.no_times
    }
}

/// Error bars need samples.
pub fn check_count(seeds: &Seeds) -> Result<()> {
    if seeds.len() >= 2 {
        return Ok(());
    }
    let expected = "an error bar needs at least two samples".into();
    Err(Error::BadValue { name: "seeds", value: seeds.to_string(), expected })
}

/// A batch of nothing is refused.
pub fn check_batch(batch: usize) -> Result<usize> {
    if (1..=1 << 20).contains(&batch) {
        return Ok(batch);
    }
    let expected = "must lie between 1 and 1048576".into();
    Err(Error::BadValue { name: "batch", value: batch.to_string(), expected })
}

/// This very command, to be repeated; without what changes nothing.
pub fn command_line() -> String {
    let quoted = |word: String| match word.chars().any(|c| c.is_whitespace() || "'\"$&|;<>()*?#~".contains(c)) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word,
    };
    let words = std::env::args().skip(1).filter(|w| !matches!(w.as_str(), "--render-only" | "--json" | "--no-times"));
    std::iter::once("dyweight".into()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

/// Shows what is being done.
struct Show {
    progress: Option<ui::Progress>,
}

impl Watch for Show {
    fn begin(&mut self, what: &str, steps: usize, done: usize, all: usize) {
        if let Some(old) = self.progress.take() {
            old.finish();
        }
        self.progress = Some(ui::Progress::new(&format!("[{}/{all}] {what}", (done + 1).min(all)), steps));
    }

    fn advance(&mut self, steps: usize) -> ControlFlow<()> {
        if let Some(progress) = &mut self.progress {
            progress.add(steps, "");
        }
        if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs what is missing, or reads what there is. None where another process makes the report.
pub fn results(experiment: &Experiment, out: &Path, args: &OutputArgs, comm: &dyn Comm) -> Result<Option<Results>> {
    if args.render_only && !comm.is_first() {
        return Ok(None);
    }
    if args.render_only {
        let results = read(out)?;
        return match results.header == experiment.header() {
            true => Ok(Some(results)),
            false => Err(Error::Conflict {
                problem: format!("{} holds an experiment with other settings", out.display()),
                hint: "give --render-only together with the options of the run".into(),
            }),
        };
    }
    let mut show = Show { progress: None };
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
    let html = out.join("report.html");
    atomic::write(&html, page.render().as_bytes())?;
    atomic::write(&out.join("report.md"), page.markdown().as_bytes())?;
    for measure in view.measures() {
        let name = if measure == Measure::Frechet { "frechet" } else { "teacher-distance" };
        atomic::write(&out.join(format!("{name}.csv")), view.table(measure, name).csv().as_bytes())?;
        let style = dyweight::study::contest::Style { x: "".into(), ..Default::default() };
        if view.columns().len() > 1 {
            view.figure(measure, &style).draw()?.write(&out.join(name))?;
        }
    }
    if args.json {
        let scores: Vec<_> = view.results.scores.values().collect();
        let answers: Vec<_> = answers
            .iter()
            .map(|(by, v, s)| json!({ "by": by.trim_end_matches(": "), "verdict": v.word(), "sentence": s }))
            .collect();
        ui::print_json(&json!({ "report": html, "scores": scores, "answers": answers }));
        return Ok(());
    }
    for measure in view.measures() {
        print_table(view, measure);
    }
    for (by, verdict, sentence) in answers {
        ui::say(&format!("{} {} — {by}{sentence}", verdict.sign(), verdict.word()));
    }
    ui::print(&html.display().to_string());
    Ok(())
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
