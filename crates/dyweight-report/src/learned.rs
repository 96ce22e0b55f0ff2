//! Figures of a learned solver: how its loss fell, and what its coefficients are.

use super::{Axis, Dash, Figure, HeatMap, LineChart, Marker, Series};

/// Losses of a run.
#[derive(Clone, Debug, Default)]
pub struct LossCurve {
    /// (iteration, training loss).
    pub training: Vec<(f64, f64)>,
    /// (iteration, validation loss).
    pub validation: Vec<(f64, f64)>,
    /// Validation loss of a handcrafted solver at the same budget, with its name.
    pub baseline: Option<(String, f64)>,
}

impl LossCurve {
    /// Loss against iterations, on a logarithmic axis.
    pub fn figure(&self, title: &str) -> Figure {
        let positive = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().copied().filter(|(_, y)| y.is_finite() && *y > 0.0).collect()
        };
        let training = positive(&self.training);
        let end = training.last().map_or(1.0, |p| p.0);
        let mut noisy = Series::new("training", 7, training).marker(Marker::None);
        noisy.width = 0.8;
        let mut chart = LineChart::new(title, Axis::linear("iteration"), Axis::log("loss")).with(noisy);
        let validation = positive(&self.validation);
        if !validation.is_empty() {
            chart = chart.with(Series::new("validation", 0, validation).marker(Marker::None));
        }
        if let Some((name, loss)) = &self.baseline {
            let line = vec![(0.0, *loss), (end, *loss)];
            chart = chart.with(Series::new(name, 1, line).marker(Marker::None).dash(Dash::Dashed));
        }
        Figure::single(chart, 440.0, 260.0)
    }
}

/// Weights with absolute columns, their sums, and the scales, as one heat-map.
pub fn coefficients(title: &str, rows: &[Vec<f64>], scales: &[f64]) -> Figure {
    let steps = rows.len();
    let first = steps - scales.len();
    let cells = |(i, row): (usize, &Vec<f64>)| {
        let mut line = vec![f64::NAN; steps];
        line[i + 1 - row.len()..=i].copy_from_slice(row);
        line.push(row.iter().sum());
        line.push(i.checked_sub(first).and_then(|k| scales.get(k)).copied().unwrap_or(f64::NAN));
        line
    };
    let columns = (0..steps).map(|j| j.to_string()).chain(["Σw".into(), "s".into()]).collect();
    let names = (0..steps).map(|i| i.to_string()).collect();
    let map = HeatMap::new(title, rows.iter().enumerate().map(cells).collect())
        .labels("slope of step", "step")
        .names(names, columns);
    Figure::single(map, 90.0 + 46.0 * (steps + 2) as f64, 90.0 + 30.0 * steps as f64)
}
