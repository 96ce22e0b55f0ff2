//! The parts of a report that every experiment has.

use super::contestant::Contestant;
use super::experiment::Subject;
use super::view::{Measure, View};
use crate::report::html::{Cell, Chart, Column, Compare, Gallery, Page, Section, Table};
use crate::report::{Axis, Dash, Figure, HeatMap, LineChart, Series};
use dyweight_core::error::Result;

/// How a report is drawn.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Show how long things took; without it a report is the same bytes for the same results.
    pub times: bool,
    /// What the horizontal axis of charts is.
    pub x: String,
    /// A logarithmic horizontal axis.
    pub log_x: bool,
    /// Rows whose pictures are set against each other: before, after.
    pub pair: Option<(String, String)>,
    /// The command that repeats it all.
    pub command: String,
}

/// So many times the median is beyond what a chart shows.
const FAR: f64 = 10.0;

impl View<'_> {
    /// Rows by columns of one measure.
    pub fn table(&self, measure: Measure, caption: &str) -> Table {
        let mut columns = vec![Column::text("")];
        for name in self.columns() {
            let column = Column::number(name);
            columns.push(if measure == Measure::Psnr { column.higher_is_better() } else { column.lower_is_better() });
        }
        let mut table = Table::new(caption, columns);
        for row in self.rows() {
            let cell = |column: &&str| match self.score(row, column) {
                Some(score) if score.failed.is_some() => Cell::from("diverged"),
                Some(score) => measure.of(score).into(),
                None => Cell::Empty,
            };
            let cells: Vec<Cell> = self.columns().iter().map(cell).collect();
            table.row([Cell::from(row)].into_iter().chain(cells));
        }
        table
    }

    /// How much larger each row is than the row `than`, on the same noise.
    fn excess(&self, measure: Measure, than: &str) -> Table {
        let names = self.columns().into_iter().map(Column::number);
        let columns: Vec<Column> = [Column::text("")].into_iter().chain(names).collect();
        let mut table = Table::new(format!("Excess over {than} on the same noise, ± its own standard error"), columns);
        for row in self.rows().into_iter().filter(|r| *r != than) {
            let cell = |column: &&str| -> Cell {
                let (own, base) = (self.get(measure, row, column), self.get(measure, than, column));
                own.zip(base).map(|(own, base)| own.minus(&base)).into()
            };
            let cells: Vec<Cell> = self.columns().iter().map(cell).collect();
            table.row([Cell::from(row)].into_iter().chain(cells));
        }
        table
    }

    /// The same as lines over the columns.
    pub fn figure(&self, measure: Measure, style: &Style) -> Figure {
        let (x, y) = (style.x.as_str(), measure.name());
        let axis = if style.log_x { Axis::log(x) } else { self.counted(Axis::linear(x)) };
        let mut chart = LineChart::new("", axis, Axis::log(y));
        if let Some((low, cap)) = self.shown_range(measure) {
            chart.y = chart.y.range(low, cap);
        }
        chart.legend = false;
        for (index, row) in self.rows().iter().enumerate() {
            let mut points = Vec::new();
            for column in self.columns() {
                if let (Some(entry), Some(found)) = (self.entry(row, column), self.get(measure, row, column)) {
                    points.push(((entry.x, found.value), found.error));
                }
            }
            let (points, errors): (Vec<_>, Vec<_>) = points.into_iter().unzip();
            let dash = if self.is_learned(row) { Dash::Solid } else { Dash::Dashed };
            chart = chart.with(Series::new(*row, index, points).errors(errors).dash(dash));
        }
        Figure::single(chart, 620.0, 360.0).legend_below()
    }

    /// Ticks at the columns where these are a few whole numbers: nobody makes 3.5 calls.
    fn counted(&self, axis: Axis) -> Axis {
        let mut xs: Vec<f64> = self.experiment.entries.iter().map(|e| e.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        if xs.len() <= 10 && xs.iter().all(|x| x.fract() == 0.0) { axis.ticks(&xs) } else { axis }
    }

    /// Values of all cells with numbers, by row and column.
    fn values(&self, measure: Measure) -> Vec<(&str, &str, f64)> {
        let cells = self.rows().into_iter().flat_map(|row| self.columns().into_iter().map(move |column| (row, column)));
        let found = cells.filter_map(|(row, column)| Some((row, column, self.get(measure, row, column)?.value)));
        found.filter(|(.., value)| *value > 0.0 && value.is_finite()).collect()
    }

    /// The range of a chart whose largest values would flatten the rest: they are left above it.
    fn shown_range(&self, measure: Measure) -> Option<(f64, f64)> {
        let mut values: Vec<f64> = self.values(measure).into_iter().map(|(.., value)| value).collect();
        values.sort_by(f64::total_cmp);
        let cap = FAR * values.get(values.len() / 2)?;
        let shown = *values.iter().rfind(|value| **value <= cap)?;
        (*values.last()? > cap).then_some((values[0] / 1.2, shown * 1.3))
    }

    /// What lies above the chart, in words.
    fn beyond(&self, measure: Measure) -> String {
        let Some((_, cap)) = self.shown_range(measure) else { return String::new() };
        let far = self.values(measure).into_iter().filter(|(.., value)| *value > cap);
        let words: Vec<String> = far.map(|(row, column, value)| format!("{row}, {column} ({value:.3})")).collect();
        format!(" Above the chart: {}.", words.join("; "))
    }

    /// Tables and charts of all measures.
    pub fn numbers(&self, page: &mut Page, style: &Style) -> Result<()> {
        let count = self.experiment.judging.seeds.len();
        for measure in self.measures() {
            let (heading, text) = match measure {
                Measure::Frechet => (
                    "Fréchet distance to the reference",
                    format!(
                        "How far the {count} samples of each cell are, as a set, from the reference, in the features of `{}`. \
                     Numbers made with another count, other features or another reference are not comparable: with fewer \
                     samples the distance comes out larger.",
                        self.experiment.judging.reference.as_ref().map_or("", |(map, _)| map.name()),
                    ),
                ),
                _ => (
                    "Distance to the teacher",
                    format!(
                        "Root mean squared difference between each sample and what `{}` with {} calls makes of the same noise, \
                     over {count} samples, ± one standard error.{}",
                        self.experiment.judging.teacher.solver,
                        self.teacher_calls(),
                        self.in_latents(),
                    ),
                ),
            };
            let section = page.section(heading);
            section.text(text);
            section.table(self.table(measure, heading));
            if let Some((_, than)) = &style.pair {
                section.table(self.excess(measure, than));
            }
            if measure == Measure::Frechet {
                self.teachers(section);
            }
            if self.columns().len() > 1 {
                section.chart(Chart::new(
                    format!("{heading}; dashed: fixed coefficients.{}", self.beyond(measure)),
                    &self.figure(measure, style),
                )?);
            }
            if measure == Measure::Rmse && self.in_latents().is_empty() {
                section.table(self.table(Measure::Psnr, "The same as peak signal-to-noise ratio in decibels"));
            }
        }
        Ok(())
    }

    /// Says so where samples are compared before they are decoded.
    fn in_latents(&self) -> &'static str {
        let decoded = |subject: &Subject| subject.model.model.decoder().is_some();
        match self.experiment.subjects.iter().any(decoded) {
            true => {
                " Measured between latents, before they are decoded; pictures and features are of the decoded images."
            }
            false => "",
        }
    }

    /// The Fréchet distance of each teacher: what an imitation can hope for.
    fn teachers(&self, section: &mut Section) {
        for (index, subject) in self.experiment.subjects.iter().enumerate() {
            let score = self.results.scores.get(&self.experiment.teacher_key(index));
            if let Some((score, found)) = score.and_then(|s| Some((s, s.frechet.as_ref()?))) {
                section.text(format!(
                    "The teacher on {}, {} with {} calls, is at {found} itself. Whoever imitates it exactly is there too.",
                    subject.name, score.solver, score.nfe
                ));
            }
        }
    }

    /// Before and after, and all samples side by side.
    pub fn pictures(&self, page: &mut Page, style: &Style) {
        let sheet = |row: &str, column: &str| self.results.sheet(&self.experiment.key(self.entry(row, column)?));
        let shown: Vec<&str> =
            self.columns().into_iter().filter(|c| self.rows().iter().any(|r| sheet(r, c).is_some())).collect();
        if shown.is_empty() {
            return;
        }
        if let Some((before, after)) = &style.pair
            && shown.iter().any(|c| sheet(before, c).is_some() && sheet(after, c).is_some())
        {
            let choice = page
                .section("Before and after")
                .text("The same seeds and the same number of network calls. Drag the slider.")
                .choice("Network calls");
            for column in &shown {
                if let (Some(left), Some(right)) = (sheet(before, column), sheet(after, column)) {
                    let caption = format!("{before} against {after}, {column}, the first seeds.");
                    choice.option(*column).compare(Compare::new(
                        caption,
                        (before.as_str(), left),
                        (after.as_str(), right),
                    ));
                }
            }
        }
        let choice = page.section("Samples").choice("Samples");
        for column in &shown {
            let mut gallery = Gallery::new(format!("First samples of every solver, {column}, same seeds."), 3);
            for row in self.rows() {
                if let Some(image) = sheet(row, column) {
                    gallery = gallery.with(row, image);
                }
            }
            choice.option(*column).images(gallery);
        }
        self.ways(page);
    }

    fn ways(&self, page: &mut Page) {
        let way = |row: &str, column: &str| self.results.way(&self.experiment.key(self.entry(row, column)?));
        let Some(column) = self.columns().into_iter().find(|c| self.rows().iter().any(|r| way(r, c).is_some())) else {
            return;
        };
        let mut gallery =
            Gallery::new(format!("States of three samples from noise (left) to result (right), {column}."), 2);
        for row in self.rows() {
            if let Some(image) = way(row, column) {
                gallery = gallery.with(row, image);
            }
        }
        page.section("Trajectories").images(gallery);
    }

    /// The learned coefficients of a row, one heat-map for each column.
    pub fn coefficients(&self, page: &mut Page, row: &str) -> Result<()> {
        let lessons: Vec<_> = self.columns().into_iter().filter_map(|c| Some((c, self.lesson(row, c)?))).collect();
        let given = self.columns().into_iter().filter_map(|c| match &self.entry(row, c)?.who {
            Contestant::Given { file } => Some((c, &**file)),
            _ => None,
        });
        let files = lessons.iter().map(|(c, l)| (*c, &*l.file)).chain(given);
        let files: Vec<_> = files.filter_map(|(c, file)| Some((c, file.body.weights()?))).collect();
        if files.is_empty() {
            return Ok(());
        }
        let section = page.section(format!("Coefficients: {row}"));
        section.text("Each row is a step: weights on the slopes of earlier steps, their sum Σw, which moves the time, and the scale s of the time told to the network. With fixed coefficients every Σw and s is 1.");
        for (column, learned) in files {
            let figure = crate::report::coefficients("", &learned.weights, &learned.time_scale);
            section.chart(Chart::new(format!("{row}, {column}."), &figure)?);
        }
        Ok(())
    }

    /// Loss against iterations of every lesson.
    pub fn lessons(&self, page: &mut Page) -> Result<()> {
        let mut seen: Vec<String> = Vec::new();
        let mut chart = LineChart::new("", Axis::linear("pairs seen"), Axis::log("validation loss"));
        chart.legend = false;
        for entry in &self.experiment.entries {
            let Some(key) = self.experiment.lesson_key(entry).filter(|k| !seen.contains(k)) else { continue };
            let Some(lesson) = self.results.lessons.get(&key) else { continue };
            let points: Vec<_> =
                lesson.validation.iter().map(|(i, loss)| ((i * lesson.pairs_per_iteration) as f64, *loss)).collect();
            chart = chart.with(Series::new(format!("{}, {} calls", entry.row, entry.nfe), seen.len(), points));
            seen.push(key);
        }
        if !seen.is_empty() && seen.len() <= 12 {
            let figure = Figure::single(chart, 620.0, 320.0).legend_below();
            page.section("Training").chart(Chart::new("Loss on pairs of other seeds while training.", &figure)?);
        }
        Ok(())
    }

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
                    "{} ({}x{}x{}), weights sha256 {}",
                    subject.name,
                    shape[0],
                    shape[1],
                    shape[2],
                    subject.model.sha256.chars().take(16).collect::<String>()
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
            "one standard error over samples; 'clearly' means beyond two standard errors of the difference, \
             in which what both owe to the same noise cancels"
                .into(),
        );
        fact("Program", concat!("dyweight ", env!("CARGO_PKG_VERSION")).into());
        let section = page.section("What was run");
        section.facts(facts).code(style.command.clone(), "sh");
        section.table(self.cells(style));
    }

    /// The teacher's network calls, on the first subject.
    fn teacher_calls(&self) -> usize {
        let first = self.experiment.subjects.first();
        first.and_then(|subject| self.experiment.judging.teacher(subject).ok()).map_or(0, |(_, nfe)| nfe)
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
            columns.push(Column::number("Time").hint("ms per sample in network and solver, of one process"));
        }
        let mut table = Table::new("All cells", columns);
        for entry in &self.experiment.entries {
            let Some(score) = self.results.score(self.experiment, entry) else { continue };
            let mut cells: Vec<Cell> = vec![
                entry.row.as_str().into(),
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

    /// Standard deviations of slopes, as a heat-map of rows by calls.
    pub fn slopes(&self, section: &mut Section, column: &str) -> Result<()> {
        let rows: Vec<_> =
            self.rows().into_iter().filter_map(|r| Some((r, self.score(r, column)?.slopes.clone()))).collect();
        let (names, cells): (Vec<String>, Vec<Vec<f64>>) = rows.into_iter().map(|(r, s)| (r.to_string(), s)).unzip();
        let map = HeatMap::new("", cells).labels("network call", "").names(names, Vec::new());
        let figure = Figure::single(map, 520.0, 260.0);
        section.chart(Chart::new(format!("Standard deviation of the slope at each call, {column}."), &figure)?);
        Ok(())
    }
}
