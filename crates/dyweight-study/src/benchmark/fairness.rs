//! What a reader needs in order to trust a comparison: which settings rivals were allowed, which trainings found
//! nothing, how single samples fare.

use super::candidate::Candidate;
use super::experiment::Entry;
use super::view::{Measure, View};
use dyweight_metrics::Estimate;
use dyweight_report::html::{Cell, Column, Section, Table};

impl<'v> View<'v> {
    /// How many settings of handcrafted solvers were tried at a budget.
    pub fn tried(&self, column: &str) -> usize {
        let here = self.experiment.entries.iter().filter(|entry| entry.column == column);
        here.filter_map(|entry| Some(entry.chosen.as_ref()?.tried)).sum()
    }

    /// Which settings were tried, on which seeds they were chosen and on which they are judged; none where nothing was
    /// left open.
    pub(crate) fn search_sentence(&self) -> Option<String> {
        let tried: Vec<usize> = self.columns().iter().map(|column| self.tried(column)).filter(|n| *n > 0).collect();
        let (least, most) = (tried.iter().min()?, tried.iter().max()?);
        let many = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        Some(format!(
            "Each handcrafted solver has its best setting: of {many} settings in all per budget (orders, grids, analytical first step on and \
             off), chosen on the seeds {}, judged on the seeds {}.",
            self.experiment.search, self.experiment.judging.seeds
        ))
    }

    /// The settings that were chosen, row by row.
    pub(super) fn settings(&self, section: &mut Section) {
        let Some(sentence) = self.search_sentence() else { return };
        let columns: Vec<Column> =
            std::iter::once(Column::text("")).chain(self.columns().into_iter().map(Column::text)).collect();
        let mut table = Table::new("The settings that were chosen, as a list of solvers has them.", columns);
        let setting = |row: &str, column: &str| Some(self.entry(row, column)?.chosen.as_ref()?.term.clone());
        for row in self.rows() {
            let cells: Vec<Option<String>> = self.columns().iter().map(|column| setting(row, column)).collect();
            if cells.iter().any(Option::is_some) {
                let cells = cells.into_iter().map(|cell| cell.map_or(Cell::Empty, Cell::Text));
                table.row([Cell::from(row)].into_iter().chain(cells));
            }
        }
        section.text(sentence).table(table);
    }

    /// True if a training of this cell gave back what it started from.
    pub(crate) fn returned_start(&self, row: &str, column: &str) -> bool {
        self.entries(row, column).into_iter().any(|entry| self.gave_back(entry))
    }

    fn gave_back(&self, entry: &Entry) -> bool {
        let Candidate::Learned { after: None, .. } = entry.who else { return false };
        let record = self.experiment.record_key(entry).and_then(|key| self.results.training_records.get(&key));
        record.is_some_and(|record| {
            let loss = |key: &str| record.file.training.get(key).and_then(|loss| loss.as_f64());
            let trained = record.file.training.get("iterations").and_then(|n| n.as_u64()) != Some(0);
            trained && loss("validation_loss").zip(loss("initial_loss")).is_some_and(|(best, first)| best >= first)
        })
    }

    /// A measure of a cell that may take part in a verdict: not of a training that found nothing.
    pub fn judged(&self, measure: Measure, row: &str, column: &str) -> Option<Estimate> {
        self.get(measure, row, column).filter(|_| !self.returned_start(row, column))
    }

    /// Says which trainings found nothing.
    pub(super) fn returned(&self, section: &mut Section) {
        let cells = self.rows().into_iter().flat_map(|row| self.columns().into_iter().map(move |column| (row, column)));
        let named: Vec<String> = cells
            .filter(|(row, column)| self.returned_start(row, column))
            .map(|(row, column)| format!("{row} at {column}"))
            .collect();
        if !named.is_empty() {
            section.text(format!(
                "Returned its start, because training found nothing better, and takes no part in a verdict: {}.",
                named.join(", ")
            ));
        }
    }

    /// The best handcrafted row of a column.
    pub fn best_handcrafted(&self, column: &str) -> Option<(&'v str, Estimate)> {
        let rows = self.rows().into_iter().filter(|row| !self.is_learned(row));
        let found = rows.filter_map(|row| Some((row, self.get(Measure::Rmse, row, column)?)));
        found.min_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    /// Median and tail of the distances of single samples, and how often the best handcrafted solver is closer.
    pub(super) fn tails(&self, section: &mut Section) {
        let named = self.columns().into_iter().map(|column| Column::text(column).hint("median · 95 % below · lost"));
        let columns: Vec<Column> = std::iter::once(Column::text("")).chain(named).collect();
        let caption = "Distance of single samples: median, 95th percentile, and the share of samples on which the best handcrafted \
                       solver of the column is closer.";
        let mut table = Table::new(caption, columns);
        let mut any = false;
        for row in self.rows() {
            let cells: Vec<Cell> = self.columns().iter().map(|column| self.tail(row, column)).collect();
            any |= cells.iter().any(|cell| *cell != Cell::Empty);
            table.row([Cell::from(row)].into_iter().chain(cells));
        }
        if any {
            section.table(table);
        }
    }

    fn tail(&self, row: &str, column: &str) -> Cell {
        let distances = |row: &str| self.score(row, column).map(|score| &score.distances[..]).filter(|d| !d.is_empty());
        let Some(own) = distances(row) else { return Cell::Empty };
        let mut sorted = own.to_vec();
        sorted.sort_by(f32::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        let best = self.best_handcrafted(column).map(|(best, _)| best).filter(|best| *best != row);
        let lost = best.and_then(distances).filter(|theirs| theirs.len() == own.len()).map(|theirs| {
            let lost = own.iter().zip(theirs).filter(|(own, theirs)| theirs < own).count();
            format!("{:.0} %", 100.0 * lost as f64 / own.len() as f64)
        });
        Cell::shown(f64::from(at(0.5)), format!("{:.3} · {:.3} · {}", at(0.5), at(0.95), lost.unwrap_or("–".into())))
    }
}
