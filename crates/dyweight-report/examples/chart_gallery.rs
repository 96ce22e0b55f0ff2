//! Draws one chart of every kind: `cargo run --example chart_gallery -p dyweight-report -- OUTDIR`.

use dyweight_report::{
    Axis, BarChart, BarSeries, Cloud, Dash, Field, Figure, HeatMap, LineChart, Marker, Paths, Plane, Series, category,
};
use std::path::PathBuf;

fn main() -> dyweight_core::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".into()));
    lines().draw()?.write(&folder.join("lines"))?;
    Figure::single(bars(), 440.0, 220.0).draw()?.write(&folder.join("bars"))?;
    heat().draw()?.write(&folder.join("heat"))?;
    Figure::single(plane(), 330.0, 300.0).draw()?.write(&folder.join("plane"))
}

fn lines() -> Figure {
    let curve = |rate: f64| (3..=20).map(|n| (f64::from(n), 2.0 * (-rate * f64::from(n)).exp())).collect::<Vec<_>>();
    let errors: Vec<f64> = curve(0.2).iter().map(|p| p.1 * 0.2).collect();
    let left = LineChart::new("Log axis", Axis::linear("network calls"), Axis::log("distance to teacher"))
        .with(Series::new("euler", 0, curve(0.1)).dash(Dash::Dashed))
        .with(Series::new("ipndm", 1, curve(0.2)).errors(errors.clone()))
        .with(Series { band: true, ..Series::new("dyweight", 2, curve(0.35)).errors(errors).marker(Marker::None) });
    let wave = |phase: f64| (0..60).map(|i| f64::from(i) / 10.0).map(|x| (x, (x + phase).sin())).collect::<Vec<_>>();
    let right = LineChart::new("Linear axis", Axis::linear("time t"), Axis::linear("state"))
        .with(Series::new("sin t", 3, wave(0.0)).marker(Marker::None))
        .with(Series::new("sin(t + 1)", 4, wave(1.0)).marker(Marker::None).dash(Dash::Dotted));
    Figure::new(2, (220.0, 190.0)).with(left).with(right)
}

fn bars() -> BarChart {
    let groups = ["NFE 3", "NFE 5", "NFE 7", "NFE 9"].map(String::from).to_vec();
    BarChart::new("Fréchet distance", groups, Axis::linear("FID"))
        .with(BarSeries::new("ipndm", 1, vec![25.0, 7.8, 4.2, 3.1]).errors(vec![0.9, 0.3, 0.2, 0.1]))
        .with(BarSeries::new("dyweight", 0, vec![9.5, 3.9, 2.61, 2.18]).errors(vec![0.4, 0.2, 0.1, 0.1]))
}

fn heat() -> Figure {
    let row = |n: usize| (0..=n).map(|i| if i == n { 1.7 } else { -0.9 / (n - i) as f64 + 0.05 * i as f64 }).collect();
    let chart = HeatMap::new("Learned weights", (0..7).map(row).collect()).labels("slope of step", "step");
    Figure::single(chart, 380.0, 260.0)
}

fn plane() -> Plane {
    let bump = |x: f64, y: f64, cx: f64, cy: f64| (-((x - cx).powi(2) + (y - cy).powi(2)) / 0.18).exp();
    let density = |x: f64, y: f64| bump(x, y, -1.0, 0.4) + bump(x, y, 1.0, 0.5) + 0.7 * bump(x, y, 0.1, -1.0);
    let spiral = |k: u32| {
        let angle = f64::from(k) * 2.4;
        (angle.cos() * 0.28 * (f64::from(k % 7) / 7.0) - 1.0, angle.sin() * 0.28 * (f64::from(k % 7) / 7.0) + 0.4)
    };
    let path = |dx: f64, bend: f64| -> Vec<(f64, f64)> {
        let at = |f: f64| (2.0 * (1.0 - f) - f + dx, 2.0 - 1.6 * f - bend * f * (1.0 - f));
        (0..=6).map(|i| at(f64::from(i) / 6.0)).collect()
    };
    let field = Field::sample((-2.4, 2.6), (-2.0, 2.4), 90, density);
    let levels = [0.05, 0.2, 0.4, 0.6, 0.8].map(|f| f * field.max()).to_vec();
    let mut plane = Plane::new("Paths of two solvers");
    plane.field = Some((field, levels));
    let points = (0..200).map(spiral).collect();
    plane.clouds.push(Cloud { name: "samples".into(), points, colour: category(2).fade(0.4), radius: 1.5 });
    let teacher = (0..4).map(|k| path(0.1 * f64::from(k), 0.0)).collect();
    plane.paths.push(Paths { dash: Dash::Dashed, marker: Marker::None, ..Paths::new("teacher", 7, teacher) });
    plane.paths.push(Paths::new("euler, 6 steps", 3, (0..4).map(|k| path(0.1 * f64::from(k), 0.8)).collect()));
    plane
}
