//! The parts of a report that every experiment has.

use super::experiment::Subject;
use super::view::{Measure, View};
use dyweight_core::error::Result;
use dyweight_models::ScoreKind;
use dyweight_report::html::{Cell, Chart, Column, Page, Section, Table};
use dyweight_report::{Axis, BarChart, BarSeries, Dash, Figure, LineChart, Marker, Series};

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
    /// Where it was run, by whom and how long: names and values. Nothing where a report must be the same bytes.
    pub run: Vec<(String, String)>,
}

/// What a report says of how it was made: the same for all reports of a run.
#[derive(Clone, Debug, Default)]
pub struct Repeat {
    /// The command.
    pub command: String,
    /// Say how long things took, and where.
    pub times: bool,
    /// Machine and threads: names and values.
    pub run: Vec<(String, String)>,
}

impl Repeat {
    /// A style with this horizontal axis.
    pub fn style(self, x: &str, log_x: bool) -> Style {
        Style { times: self.times, x: x.into(), log_x, pair: None, command: self.command, run: self.run }
    }
}

/// So many times the median is beyond what a chart shows.
const FAR: f64 = 10.0;

impl View<'_> {
    /// Rows by columns of one measure.
    pub fn table(&self, measure: Measure, caption: &str) -> Table {
        let mut columns = vec![Column::text("")];
        for name in self.columns() {
            let column = Column::number(name);
            columns.push(if measure.more_is_better() { column.higher_is_better() } else { column.lower_is_better() });
        }
        let mut table = Table::new(caption, columns);
        for row in self.rows() {
            let cell = |column: &&str| match self.failure(row, column) {
                Some(_) => Cell::from("diverged"),
                None => self.get(measure, row, column).into(),
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
        let widened = if self.trainings() > 1 { "; that over trainings is widened for their small number" } else { "" };
        let caption = format!("Excess over {than} on the same noise, ± its own standard error{widened}.");
        let mut table = Table::new(caption, columns);
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

    /// The same as lines over the columns, or as bars where columns are no numbers.
    pub fn figure(&self, measure: Measure, style: &Style) -> Figure {
        if self.has_categories() {
            return self.bars(measure);
        }
        let (x, y) = (style.x.as_str(), measure.name());
        let axis = if style.log_x { Axis::log(x) } else { self.counted(Axis::linear(x)) };
        // Scores of prompts may be negative, and differ little.
        let log = !matches!(measure, Measure::Prompted(_));
        let mut chart = LineChart::new("", axis, if log { Axis::log(y) } else { Axis::linear(y) });
        if let Some((low, cap)) = self.shown_range(measure) {
            chart.y = chart.y.range(low, cap);
        }
        chart.legend = false;
        for (row, look) in self.rows().iter().zip(self.row_styles()) {
            let mut points = Vec::new();
            for column in self.columns() {
                if let (Some(entry), Some(found)) = (self.entry(row, column), self.get(measure, row, column)) {
                    points.push(((entry.x, found.value), found.total_error()));
                }
            }
            let (points, errors): (Vec<_>, Vec<_>) = points.into_iter().unzip();
            let dash = if self.is_learned(row) { Dash::Solid } else { Dash::Dashed };
            let series = Series::new(*row, look.colour, points).marker(Marker::category(look.mark));
            chart = chart.with(series.errors(errors).dash(dash));
        }
        Figure::single(chart, 620.0, 360.0).legend_below()
    }

    /// True if columns are names, between which there is nothing.
    fn has_categories(&self) -> bool {
        !self.columns().iter().all(|column| column.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Bars for each column.
    fn bars(&self, measure: Measure) -> Figure {
        let columns = self.columns();
        let groups = columns.iter().map(|column| column.to_string()).collect();
        let mut chart = BarChart::new("", groups, Axis::linear(measure.name()));
        if let Some((_, cap)) = self.shown_range(measure) {
            chart.y = chart.y.range(0.0, cap);
        }
        (chart.legend, chart.values) = (false, false);
        for (row, look) in self.rows().iter().zip(self.row_styles()) {
            let found: Vec<_> = columns.iter().map(|column| self.get(measure, row, column)).collect();
            let values = found.iter().map(|e| e.as_ref().map_or(f64::NAN, |e| e.value)).collect();
            let errors = found.iter().map(|e| e.as_ref().map_or(f64::NAN, |e| e.total_error())).collect();
            chart = chart.with(BarSeries::new(*row, look.colour, values).errors(errors));
        }
        Figure::single(chart, 620.0, 340.0).legend_below()
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
        // Scores of prompts differ little, distances of imitations by decades that are all of interest.
        if matches!(measure, Measure::Prompted(_) | Measure::Imitation | Measure::JudgedImitation) {
            return None;
        }
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
    pub fn tables(&self, page: &mut Page, style: &Style) -> Result<()> {
        let count = self.experiment.judging.seeds.len();
        for measure in self.all_measures() {
            let (heading, text) = match measure {
                Measure::Prompted(kind) => (kind.title(), self.about(kind)),
                Measure::Imitation | Measure::JudgedImitation => (
                    measure.name(),
                    format!(
                        "How far the {count} samples of each cell are, as a set, from those of the teacher on the same noise, in the \
                     features of `{}`: what the solver does to the distribution, without what the network does to it.",
                        self.feature_network(measure),
                    ),
                ),
                Measure::Frechet | Measure::JudgedFrechet => (
                    measure.name(),
                    format!(
                        "How far the {count} samples of each cell are, as a set, from the reference, in the features of `{}`. \
                     Numbers made with another count, other features or another reference are not comparable: with fewer \
                     samples the distance comes out larger.",
                        self.feature_network(measure),
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
            if self.trainings() > 1 {
                let many = self.trainings();
                section.text(format!("What is learned was learned {many} times, from other training pairs each time."));
            }
            if self.columns().len() > 1 {
                let how = if self.has_categories() { "" } else { "; dashed: fixed coefficients" };
                section.chart(Chart::new(
                    format!("{heading}{how}. Bars of errors are one standard error.{}", self.beyond(measure)),
                    &self.figure(measure, style),
                )?);
            }
            section.table(self.table(measure, heading));
            if measure == Measure::Rmse {
                self.returned(section);
                self.settings(section);
            }
            if let Some((_, than)) = style.pair.as_ref().filter(|(_, than)| self.rows().contains(&than.as_str())) {
                section.table(self.excess(measure, than));
            }
            if matches!(measure, Measure::Rmse | Measure::Frechet | Measure::JudgedFrechet | Measure::Prompted(_)) {
                self.teachers(section, measure);
            }
            if measure == Measure::Rmse && self.in_latents().is_empty() {
                section.table(self.table(Measure::Psnr, "The same as peak signal-to-noise ratio in decibels"));
            }
            if measure == Measure::Rmse {
                self.tails(section);
            }
        }
        Ok(())
    }

    fn feature_network(&self, measure: Measure) -> &str {
        let judging = &self.experiment.judging;
        let network = match measure {
            Measure::JudgedImitation | Measure::JudgedFrechet => &judging.judge,
            _ => &judging.reference,
        };
        network.as_ref().map_or("", |(map, _)| map.name())
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

    /// What a score of prompts is, and of which network.
    fn about(&self, kind: ScoreKind) -> String {
        let scorer = self.experiment.judging.scorers.iter().find(|scorer| scorer.kind() == kind);
        let (model, sha256) = scorer.map_or(("", ""), |scorer| (scorer.model(), scorer.sha256()));
        let how = scorer.map_or("", |scorer| scorer.preprocess().resampling.name());
        let what = match kind {
            ScoreKind::Clip => "100 times the cosine of the features of image and prompt",
            ScoreKind::Hps => "The cosine of the features of image and prompt in a network trained on people's choices",
            ScoreKind::ImageReward => "The reward of image and prompt by a network trained on people's rankings",
        };
        format!(
            "{what}, mean over {} samples, ± one standard error; more is better. Network `{model}` ({}), images resized as `{how}`. \
             Numbers of another network are not comparable.",
            self.experiment.judging.seeds.len(),
            &sha256[..sha256.len().min(12)],
        )
    }

    /// What each teacher reaches: what an imitation can hope for.
    fn teachers(&self, section: &mut Section, measure: Measure) {
        for (index, subject) in self.experiment.subjects.iter().enumerate() {
            let score = self.results.scores.get(&self.experiment.teacher_key(index));
            if let Some((score, found)) = score.and_then(|s| Some((s, measure.of(s)?))) {
                let what = match measure {
                    Measure::Rmse => format!(
                        "is itself {found} from the exact solution ({} steps of Heun's method). Distances far below that say how well it is imitated, no \
                         more.",
                        super::exact::STEPS
                    ),
                    _ => format!("is at {found} itself. Whoever imitates it exactly is there too."),
                };
                section.text(format!(
                    "The teacher on {}, {} with {} calls, {what}",
                    subject.name, score.solver, score.nfe
                ));
            }
        }
    }

    /// The teacher's network calls, on the first subject.
    pub(super) fn teacher_calls(&self) -> usize {
        let first = self.experiment.subjects.first();
        first.and_then(|subject| self.experiment.judging.teacher(subject).ok()).map_or(0, |teacher| teacher.sampler.nfe)
    }
}
