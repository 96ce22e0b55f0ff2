//! Where a report comes from: what was run with which options, how long it took, and the files it left.

use super::candidate::Candidate;
use super::page::Style;
use super::run::solver_file;
use super::view::View;
use dyweight_models::Precision;
use dyweight_report::html::{Cell, Column, Page, Table};

impl View<'_> {
    /// What was run, and how to repeat it.
    pub fn provenance(&self, page: &mut Page, style: &Style) {
        let judging = &self.experiment.judging;
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.into(), value));
        for subject in &self.experiment.subjects {
            let shape = subject.model.model.shape();
            fact(
                "Model",
                format!(
                    "{} ({}x{}x{}), weights sha256 {}{}",
                    subject.name,
                    shape[0],
                    shape[1],
                    shape[2],
                    subject.model.sha256.chars().take(16).collect::<String>(),
                    match subject.model.precision() {
                        Precision::F32 => "",
                        Precision::Bf16 => ", products in bf16",
                    }
                ),
            );
        }
        fact("Seeds", format!("{} ({} samples per cell)", judging.seeds, judging.seeds.len()));
        fact("Teacher", format!("{}, {} calls", judging.teacher.solver, self.teacher_calls()));
        if let Some((map, reference)) = &judging.reference {
            fact("Features", format!("{}, weights sha256 {}", map.name(), &map.sha256()[..16]));
            fact("Reference", format!("statistics sha256 {}", &reference.statistics().fingerprint()[..16]));
        }
        fact(
            "Error bars",
            "one standard error over samples and, where there are several, over trainings; 'clearly' means beyond two standard errors of the \
             difference, in which what both owe to the same noise cancels"
                .into(),
        );
        for misfit in self.experiment.misfits().unwrap_or_default() {
            fact("Not as learned", misfit);
        }
        self.trained().into_iter().for_each(|(name, value)| fact(&name, value));
        fact("Program", concat!("dyweight ", env!("CARGO_PKG_VERSION")).into());
        if style.times {
            self.times().into_iter().chain(style.run.clone()).for_each(|(name, value)| fact(&name, value));
        }
        let section = page.section("What was run");
        section.facts(facts).code(style.command.clone(), "sh");
        section.table(self.cells(style));
        self.files(page);
    }

    /// How what is learned was trained: rows of the same options together.
    fn trained(&self) -> Vec<(String, String)> {
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        for entry in &self.experiment.entries {
            let (Candidate::Learned { .. }, Some(key)) = (&entry.who, self.experiment.record_key(entry)) else {
                continue;
            };
            let Some(training_record) = self.results.training_records.get(&key) else { continue };
            let told = |key: &str| {
                training_record.file.training.get(key).map_or(String::new(), |v| v.to_string().replace('"', ""))
            };
            let options = format!(
                "{} iterations of {} pairs, teacher {}, loss {}, start {}",
                told("iterations"),
                told("pairs_per_iteration"),
                told("teacher"),
                told("loss"),
                told("init")
            );
            match found.iter_mut().find(|(known, _)| *known == options) {
                Some((_, rows)) if rows.contains(&entry.row.as_str()) => {}
                Some((_, rows)) => rows.push(&entry.row),
                None => found.push((options, vec![&entry.row])),
            }
        }
        found
            .into_iter()
            .map(|(options, rows)| ("Training".into(), format!("{options} ({})", rows.join(", "))))
            .collect()
    }

    /// How long all of it took, and training of that.
    fn times(&self) -> Vec<(String, String)> {
        let of = |start: &str| -> Vec<f64> {
            let own = self.results.seconds.iter().filter(|(key, _)| key.starts_with(start));
            own.map(|(_, seconds)| *seconds).collect()
        };
        let (runs, training_records) = (self.results.run_seconds, of("training-"));
        let training: f64 = training_records.iter().sum();
        let minutes = |seconds: f64| {
            if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
        };
        let all = (runs > 0.0).then(|| ("Time".to_string(), format!("{} in all", minutes(runs))));
        let taught = (training > 0.0).then(|| {
            let count = training_records.len();
            ("Training time".to_string(), format!("{} for {count} solvers", minutes(training)))
        });
        all.into_iter().chain(taught).collect()
    }

    /// Numbers, drawings and solvers as files, and the main table for a paper.
    fn files(&self, page: &mut Page) {
        let mut links: Vec<(String, String)> = Vec::new();
        for measure in self.all_measures() {
            let (name, file) = (measure.name(), measure.file_name());
            links.push((format!("{name}, numbers"), format!("{file}.csv")));
            if self.columns().len() > 1 {
                links.extend(["svg", "png"].map(|end| (format!("{name}, drawing"), format!("{file}.{end}"))));
            }
        }
        let mut seen = Vec::new();
        for entry in &self.experiment.entries {
            let is_learned = matches!(entry.who, Candidate::Learned { .. });
            let file = solver_file(entry);
            if is_learned && !seen.contains(&file) {
                links.push((format!("{}, {} calls, a solver file", entry.row, entry.nfe), file.clone()));
                seen.push(file);
            }
        }
        links.push(("everything on record".into(), "records.jsonl".into()));
        links.push(("this report as text".into(), "report.md".into()));
        let section = page.section("Files");
        section.links(links);
        for measure in self.all_measures() {
            section.heading(format!("{}, as a LaTeX table", capitalised(measure.name())));
            section.code(self.table(measure, measure.name()).latex(), "latex");
        }
    }

    /// Every cell with its solver, counted calls and time.
    fn cells(&self, style: &Style) -> Table {
        let mut columns = vec![
            Column::text("Row"),
            Column::text("Column"),
            Column::text("Solver"),
            Column::number("Calls").hint("counted"),
            Column::number("Steps"),
        ];
        if style.times {
            columns.push(Column::number("Time").hint("ms per sample"));
        }
        let mut table = Table::new("All cells", columns);
        for entry in &self.experiment.entries {
            let Some(score) = self.results.score(self.experiment, entry) else { continue };
            let mut cells: Vec<Cell> = vec![
                entry.train_seed().map_or(entry.row.clone(), |seed| format!("{}, seed {seed}", entry.row)).into(),
                entry.column.as_str().into(),
                score.solver.as_str().into(),
                score.nfe.into(),
                score.steps.into(),
            ];
            if style.times {
                let seconds = self.results.seconds.get(&score.key);
                cells.push(seconds.map_or(Cell::Empty, |s| Cell::number(1000.0 * s, 2)));
            }
            table.row(cells);
        }
        table
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
