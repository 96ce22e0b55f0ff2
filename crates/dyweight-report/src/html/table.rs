//! Tables: cells that know their numbers, so that the same table can be sorted, judged and written as CSV.
//!
//! The best cell of a column is marked only if it is clearly best: an estimate by more than two standard errors of the
//! difference to each other one, a plain number by being the only one of its size.

use crate::axis::{brief, measured, signed};
use dyweight_metrics::Estimate;
use std::borrow::Cow;

/// Which numbers of a column are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Small ones.
    Lower,
    /// Large ones.
    Higher,
}

/// A column's head.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub(super) name: String,
    pub(super) hint: String,
    pub(super) numeric: bool,
    pub(super) better: Option<Better>,
}

impl Column {
    /// A column of words.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), hint: String::new(), numeric: false, better: None }
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { numeric: true, ..Self::text(name) }
    }

    /// With a unit or a few words of explanation below the name.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Small numbers are good.
    pub fn lower_is_better(self) -> Self {
        Self { better: Some(Better::Lower), ..self }
    }

    /// Large numbers are good.
    pub fn higher_is_better(self) -> Self {
        Self { better: Some(Better::Higher), ..self }
    }
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Empty,
    /// Words.
    Text(String),
    /// A number as it is shown and as it is compared.
    Number {
        /// What the reader sees.
        shown: String,
        /// What it sorts by.
        value: f64,
    },
    /// A measured number.
    Estimate(Estimate),
}

impl Cell {
    /// A number with this many decimals.
    pub fn number(value: f64, decimals: usize) -> Self {
        Cell::Number { shown: signed(&format!("{value:.decimals$}")), value }
    }

    /// A number shown in other words: `1.2 s`, `3×`, `94 %`.
    pub fn shown(value: f64, shown: impl Into<String>) -> Self {
        Cell::Number { shown: shown.into(), value }
    }

    /// The words or digits.
    pub(super) fn display(&self) -> Cow<'_, str> {
        match self {
            Cell::Empty => "–".into(),
            Cell::Text(text) | Cell::Number { shown: text, .. } => text.into(),
            Cell::Estimate(e) if e.trainings > 1 => measured(e.value, &[e.error, e.training_error]).into(),
            Cell::Estimate(e) => measured(e.value, &[e.error]).into(),
        }
    }

    /// What it sorts by among numbers.
    pub(super) fn value(&self) -> Option<f64> {
        match self {
            Cell::Number { value, .. } | Cell::Estimate(Estimate { value, .. }) => Some(*value),
            Cell::Empty | Cell::Text(_) => None,
        }
        .filter(|v| !v.is_nan())
    }

    /// As an estimate whose larger values are worse; a plain number has no error.
    fn loss(&self, better: Better) -> Option<Estimate> {
        let own = match self {
            Cell::Estimate(e) if e.error.is_finite() => e.clone(),
            _ => Estimate::new(self.value()?, 0.0, 1),
        };
        let own = if better == Better::Lower { own } else { own.negated() };
        Some(own).filter(|e| !e.value.is_nan())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Cell::Number { shown: count.to_string(), value: count as f64 }
    }
}

/// Four significant digits.
impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number { shown: brief(value, None), value }
    }
}

impl From<Estimate> for Cell {
    fn from(estimate: Estimate) -> Self {
        Cell::Estimate(estimate)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Cell::Empty, Into::into)
    }
}

/// Rows under named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// No rows yet.
    pub fn new(caption: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { caption: caption.into(), columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; it is filled with empty cells, or cut, to the number of columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        row.resize(self.columns.len(), Cell::Empty);
        self.rows.push(row);
        self
    }

    /// True if the cell is clearly the best of its column.
    pub fn is_best(&self, row: usize, column: usize) -> bool {
        let Some(better) = self.columns.get(column).and_then(|c| c.better) else { return false };
        let loss = |r: &Vec<Cell>| r[column].loss(better);
        let Some(own) = self.rows.get(row).and_then(loss) else { return false };
        let others = self.rows.iter().enumerate().filter(|(i, _)| *i != row);
        let rivals: Vec<Estimate> = others.filter_map(|(_, r)| loss(r)).collect();
        !rivals.is_empty() && rivals.iter().all(|rival| own.clearly_below(rival))
    }

    /// What a reader must know of its signs: the mark of the best, and what stands behind errors.
    pub(super) fn notes(&self, mark: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let cells = || (0..self.rows.len()).flat_map(|r| (0..self.columns.len()).map(move |c| (r, c)));
        if cells().any(|(r, c)| self.is_best(r, c)) {
            notes.push(format!(
                "{mark} clearly best of its column, by more than two standard errors where there are any."
            ));
        }
        let aims: Vec<Better> = self.columns.iter().filter_map(|c| c.better).collect();
        match aims.first() {
            Some(Better::Lower) if aims.iter().all(|aim| *aim == Better::Lower) => {
                notes.push("Lower is better.".into())
            }
            Some(Better::Higher) if aims.iter().all(|aim| *aim == Better::Higher) => {
                notes.push("Higher is better.".into())
            }
            _ => {}
        }
        let counts = self.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Estimate(e) => Some(e.count),
            _ => None,
        });
        match (counts.clone().min(), counts.max()) {
            (Some(least), Some(most)) if least == most => {
                notes.push(format!("± one standard error, N\u{a0}=\u{a0}{most}."))
            }
            (Some(least), Some(most)) => {
                notes.push(format!("± one standard error, N\u{a0}=\u{a0}{least}\u{a0}to\u{a0}{most}."))
            }
            _ => {}
        }
        if let Some(trainings) = self.trainings() {
            notes.push(format!("The second ± is one standard error over {trainings} trainings, whose mean is shown."));
        }
        notes
    }

    /// The most trainings behind a number, if more than one.
    fn trainings(&self) -> Option<usize> {
        let counts = self.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Estimate(e) => Some(e.trainings),
            _ => None,
        });
        counts.max().filter(|most| *most > 1)
    }

    /// As the text of a LaTeX table (package booktabs), best cells bold.
    pub fn latex(&self) -> String {
        let columns: String = self.columns.iter().map(|c| if c.numeric { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let mut out = format!("% {}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n", tex(&self.caption));
        out += &line(self.columns.iter().map(|c| tex(&c.name)).collect());
        out += "\\midrule\n";
        for (r, row) in self.rows.iter().enumerate() {
            let cell = |(c, value): (usize, &Cell)| {
                let text = tex(&value.display());
                if self.is_best(r, c) { format!("\\textbf{{{text}}}") } else { text }
            };
            out += &line(row.iter().enumerate().map(cell).collect());
        }
        out + "\\bottomrule\n\\end{tabular}\n"
    }

    /// Comma-separated values (RFC 4180), numbers in full. A column with estimates becomes three: value, standard
    /// error, count; with several trainings five: their standard error, and how many.
    pub fn csv(&self) -> String {
        let measured = |c: usize| self.rows.iter().any(|r| matches!(r[c], Cell::Estimate(_)));
        let width = if self.trainings().is_some() { 5 } else { 3 };
        let mut lines = vec![Vec::new()];
        for (c, column) in self.columns.iter().enumerate() {
            lines[0].push(inert(&column.name));
            if measured(c) {
                let parts = ["error", "count", "training error", "trainings"]
                    .map(|what| inert(&format!("{} {what}", column.name)));
                lines[0].extend(parts.into_iter().take(width - 1));
            }
        }
        for row in &self.rows {
            let parts = |(c, cell): (usize, &Cell)| fields(cell, if measured(c) { width } else { 1 });
            lines.push(row.iter().enumerate().flat_map(parts).collect());
        }
        let line = |fields: Vec<String>| fields.iter().map(|f| quoted(f)).collect::<Vec<_>>().join(",") + "\r\n";
        lines.into_iter().map(line).collect()
    }
}

/// Text as LaTeX.
fn tex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '±' => out.push_str("$\\pm$"),
            '−' => out.push_str("$-$"),
            '×' => out.push_str("$\\times$"),
            '–' => out.push_str("--"),
            '\u{a0}' => out.push('~'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The fields of a cell: one, or more in a column with estimates.
fn fields(cell: &Cell, width: usize) -> Vec<String> {
    let mut fields = match cell {
        Cell::Empty => vec![String::new()],
        Cell::Text(text) => vec![inert(text)],
        Cell::Number { value, .. } => vec![value.to_string()],
        Cell::Estimate(e) => [e.value, e.error, e.count as f64, e.training_error, e.trainings as f64]
            .iter()
            .map(f64::to_string)
            .collect(),
    };
    fields.resize(width, String::new());
    fields
}

/// A word that no spreadsheet takes for a formula: a file's name may begin with a sign of one.
fn inert(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.into() }
}

fn quoted(field: &str) -> Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, error: f64) -> Cell {
        Estimate::new(value, error, 100).into()
    }

    fn table() -> Table {
        let columns = [Column::text("solver"), Column::number("FID").lower_is_better(), Column::number("NFE")];
        Table::new("caption", columns)
    }

    #[test]
    fn only_what_is_clearly_best_is_marked() {
        let mut clear = table();
        clear.row(["a".into(), estimate(1.0, 0.1)]).row(["b".into(), estimate(2.0, 0.1)]).row(["c".into()]);
        assert_eq!([0, 1, 2].map(|r| clear.is_best(r, 1)), [true, false, false]);
        assert!(!clear.is_best(0, 0) && !clear.is_best(0, 2) && !clear.is_best(9, 9));
        let mut close = table();
        close.row(["a".into(), estimate(1.0, 0.1)]).row(["b".into(), estimate(1.2, 0.1)]);
        assert!(!close.is_best(0, 1) && !close.is_best(1, 1));
        let mut alone = table();
        alone.row(["a".into(), 1.0.into()]);
        assert!(!alone.is_best(0, 1), "best of one says nothing");
        let mut tied = table();
        tied.row(["a".into(), 1.0.into()]).row(["b".into(), 1.0.into()]);
        assert!(!tied.is_best(0, 1));
    }

    #[test]
    fn latex_escapes_and_marks_the_best() {
        let mut table = table();
        table.row(["a_b & c".into(), estimate(1.0, 0.1)]).row(["50 %".into(), estimate(2.0, 0.1)]);
        let text = table.latex();
        assert!(text.contains("a\\_b \\& c & \\textbf{1.00 $\\pm$ 0.10} & -- \\\\"), "{text}");
        assert!(text.contains("50 \\% & 2.00") && text.contains("\\begin{tabular}{lrr}"), "{text}");
    }

    #[test]
    fn the_spread_of_trainings_stands_beside_that_of_samples() {
        let [a, b] = [1.0, 1.2].map(|v| Estimate::new(v, 0.05, 100));
        let cell = Cell::from(Estimate::over_trainings(vec![a, b]));
        assert_eq!(cell.display(), "1.100 ± 0.050 ± 0.100");
        let mut table = table();
        table.row(["a".into(), cell]);
        assert!(table.notes("").concat().contains("over 2 trainings"));
        assert!(
            table.csv().starts_with("solver,FID,FID error,FID count,FID training error,FID trainings,NFE"),
            "{}",
            table.csv()
        );
    }

    #[test]
    fn csv_keeps_every_digit_and_quotes_what_must_be() {
        let mut table = table();
        table.row(["a \"b\", c".into(), estimate(0.1 + 0.2, 0.25), 3.into()]).row(["d".into(), 2.5.into()]);
        let lines =
            ["solver,FID,FID error,FID count,NFE", "\"a \"\"b\"\", c\",0.30000000000000004,0.25,100,3", "d,2.5,,,", ""];
        assert_eq!(table.csv(), lines.join("\r\n"));
    }

    #[test]
    fn no_cell_becomes_a_formula_and_numbers_keep_their_sign() {
        let mut table = Table::new("", [Column::text("=A1"), Column::number("b")]);
        table.row(["=HYPERLINK(\"x\")".into(), Cell::from(-2.5)]).row(["@SUM(1)".into(), 1.into()]);
        assert_eq!(table.csv(), "'=A1,b\r\n\"'=HYPERLINK(\"\"x\"\")\",-2.5\r\n'@SUM(1),1\r\n");
    }
}
