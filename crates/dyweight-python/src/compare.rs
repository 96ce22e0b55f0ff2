//! Solvers compared on a model in Python: the table and the report page of `dyweight compare`.

use crate::error::{raised, warn};
use crate::model::{PythonModel, unread};
use crate::processes::processes;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Rng;
use dyweight_sample::Show;
use dyweight_sample::comm::Comm;
use dyweight_solvers::spec::{ScheduleSpec, Seeds, SolverSpec};
use dyweight_study::benchmark::{Experiment, Judging, Piece, Repeat, Subject, View, Watch, run};
use dyweight_study::compare::{Field, page};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A comparison, as Python asks for it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    solvers: Vec<String>,
    files: Vec<String>,
    nfe: Vec<usize>,
    schedule: ScheduleSpec,
    search: bool,
    afs: Option<bool>,
    skip_impossible: bool,
    condition: Option<usize>,
    guidance: Option<f64>,
    seeds: String,
    rng: String,
    teacher: String,
    teacher_order: Option<usize>,
    teacher_nfe: Option<usize>,
    batch: usize,
    out: PathBuf,
    /// The call that repeats it.
    command: String,
    times: bool,
}

/// Compares, writes the report, and returns what was found as JSON; nothing at every rank but 0.
/// `watch(what, steps, done, all)` hears of work that begins, `watch(steps)` of work that goes on.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    request: &str,
    comm: Option<&Bound<'_, PyAny>>,
    watch: Py<PyAny>,
) -> PyResult<Option<String>> {
    let (model, comm) = (PythonModel::new(model)?, processes(comm)?);
    let mut warnings = Vec::new();
    let mut listener = Listener { watch, raised: None };
    let outcome = py.detach(|| compared(&model, request, &comm, &mut listener, &mut warnings));
    warn(py, &warnings)?;
    match (outcome, listener.raised) {
        (Err(Error::Cancelled), Some(error)) => Err(error),
        (outcome, _) => outcome.map_err(|e| raised(py, e, None)),
    }
}

/// Tells Python what is going on. What it raises stops the work.
struct Listener {
    watch: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Watch for Listener {
    fn begin(&mut self, piece: &Piece<'_>) {
        let (done, all) = piece.entries;
        let told = Python::attach(|py| self.watch.call1(py, (piece.what, piece.steps, done, all)).map(drop));
        self.raised = self.raised.take().or(told.err());
    }

    fn advance(&mut self, steps: usize) -> Result<()> {
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.watch.call1(py, (steps,)).map(drop)
        });
        self.raised = self.raised.take().or(told.err());
        if self.raised.is_some() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

fn compared(
    model: &Arc<PythonModel>,
    request: &str,
    comm: &Arc<dyn Comm>,
    watch: &mut Listener,
    warnings: &mut Vec<String>,
) -> Result<Option<String>> {
    let request: Request = serde_json::from_str(request).map_err(|e| unread("compare", &e))?;
    let seeds = Seeds::parse(&request.seeds)?;
    if seeds.len() < 2 {
        return Err(Error::bad_value("seeds", seeds, "an error bar needs at least two samples"));
    }
    let subject = Subject {
        show: Show::class(request.condition),
        guidance: request.guidance,
        ..Subject::new(Arc::new(model.loaded()))
    };
    subject.check()?;
    let field = Field {
        once: false,
        solvers: request.solvers,
        files: request.files,
        budgets: request.nfe,
        schedule: request.schedule,
        search: request.search,
        afs: request.afs,
        skip_impossible: request.skip_impossible,
        train: None,
    };
    let entries = field.entries(&subject)?;
    let name = |text: &String| Ok((text.clone(), Value::from(field.row_of(text)?)));
    let names = field.solvers.iter().map(name).collect::<Result<serde_json::Map<_, _>>>()?;
    let judging = Judging {
        seeds,
        rng: Rng::named(&request.rng)?,
        teacher: SolverSpec { order: request.teacher_order, ..SolverSpec::named(&request.teacher) },
        teacher_nfe: request.teacher_nfe,
        schedule: ScheduleSpec::default(),
        reference: None,
        judge: None,
        scorers: Vec::new(),
        batch: request.batch.max(1),
        pictures: true,
    };
    let experiment = Experiment::new("compare", vec![subject], entries, judging)?;
    *warnings = experiment.misfits()?;
    let experiment = experiment.searched(&mut |search, folder| run(search, &request.out.join(folder), comm, watch))?;
    let results = run(&experiment, &request.out, comm, watch)?;
    if !comm.is_root() {
        return Ok(None);
    }
    let view = View { experiment: &experiment, results: &results };
    let report = view.write(
        &page(&view, Repeat { command: request.command, times: request.times, run: Vec::new() })?,
        &request.out,
    )?;
    let cell = |row: &str, column: &str| -> Option<Value> {
        let (entry, score) = (view.entry(row, column)?, view.score(row, column)?);
        Some(json!({
            "solver": row, "setting": entry.chosen.as_ref().map(|chosen| &chosen.term), "nfe": entry.nfe, "failed": score.failed, "learned": view.is_learned(row),
            "rmse": score.rmse.as_ref().map(|e| e.value), "error": score.rmse.as_ref().map(|e| e.error),
            "psnr": score.psnr.as_ref().map(|e| e.value),
        }))
    };
    let cells: Vec<Value> =
        view.rows().iter().flat_map(|r| view.columns().into_iter().filter_map(|c| cell(r, c))).collect();
    Ok(Some(json!({ "report": report, "headline": view.headline(), "names": names, "scores": cells }).to_string()))
}
