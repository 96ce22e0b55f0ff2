//! The figure of `docs/method.md`: what a DyWeight solver of the spiral has learned, and where that takes its samples.
//!
//! ```sh
//! dyweight train --recipe few --model mixture --nfe 3 --out spiral.json
//! cargo run --release --example method_figure -p dyweight-report -- spiral.json docs/images/method
//! ```

use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Rng;
use dyweight_core::sample::{Plan, sample_observed};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::{Heun, Ipndm, Solver};
use dyweight_report::{
    Axis, Cloud, Dash, Field, Figure, HeatMap, LineChart, Marker, Paths, Plane, Point, Series, category,
};
use dyweight_solvers::solver_file::SolverFile;
use std::path::PathBuf;

/// How many trajectories are drawn: those of the first seeds whose noise lies in the picture.
const DRAWN: usize = 4;
/// Steps of the solution that counts as exact.
const EXACT: usize = 400;
/// Half the width of the drawn square.
const REACH: f64 = 1.3;

const NOMINAL: usize = 7;
const RIVAL: usize = 3;
const OURS: usize = 0;

fn main() -> Result<()> {
    let argument = |i: usize, default: &str| PathBuf::from(std::env::args().nth(i).unwrap_or_else(|| default.into()));
    let path = argument(1, "spiral.json");
    let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
    let file = SolverFile::parse(&bytes).map_err(|e| Error::malformed(&path, e))?;
    Figure::new(2, (330.0, 270.0))
        .with(weights(&file))
        .with(times(&file)?)
        .with(given(&file))
        .with(trajectories(&file)?)
        .draw()?
        .write(&argument(2, "method"))
}

/// The triangle of weights, the sum of each row beside it.
fn weights(file: &SolverFile) -> HeatMap {
    let rows = &file.body.weights().expect("a DyWeight solver").weights;
    let steps = rows.len();
    let cells = |(i, row): (usize, &Vec<f64>)| {
        let mut line = vec![f64::NAN; steps + 1];
        line[i + 1 - row.len()..=i].copy_from_slice(row);
        line[steps] = row.iter().sum();
        line
    };
    let columns = (0..steps).map(|j| j.to_string()).chain(["sum".into()]).collect();
    let names = (0..steps).map(|i| i.to_string()).collect();
    HeatMap::new("1. Weights, a row for each step", rows.iter().enumerate().map(cells).collect())
        .labels("slope of step", "step")
        .names(names, columns)
}

/// Where the grid has the states, and where the sums of the weights take them.
fn times(file: &SolverFile) -> Result<LineChart> {
    let numbered = |values: &[f64]| values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect::<Vec<_>>();
    let ticks: Vec<f64> = (0..=file.steps).map(|i| i as f64).collect();
    let (x, y) = (Axis::linear("state").ticks(&ticks), Axis::log("noise level"));
    let grid = Series::new("grid", NOMINAL, numbered(file.grid()?.sigmas())).dash(Dash::Dashed);
    let shifted = Series::new("time T", OURS, numbered(&file.realised_times));
    Ok(LineChart::new("2. Time follows the sums", x, y).with(grid).with(shifted))
}

/// The level the network is given, as a multiple of T.
fn given(file: &SolverFile) -> LineChart {
    let ratio = |(i, level): (usize, &Option<f64>)| level.map(|level| (i as f64, level / file.realised_times[i]));
    let points: Vec<Point> = file.network_levels.iter().enumerate().filter_map(ratio).collect();
    let ticks: Vec<f64> = (0..file.steps).map(|i| i as f64).collect();
    let x = Axis::linear("step").ticks(&ticks).range(-0.3, file.steps as f64 - 0.7);
    let highest = points.iter().fold(1.1, |most: f64, p| most.max(p.1));
    let y = Axis::linear("level given / T").range(0.0, 1.1 * highest);
    let one = vec![(-0.3, 1.0), (file.steps as f64 - 0.7, 1.0)];
    LineChart::new("3. The network is given s·T", x, y)
        .with(Series::new("no correction", NOMINAL, one).marker(Marker::None).dash(Dash::Dashed))
        .with(Series::new("learned scale s", OURS, points))
}

/// States of a few seeds, each divided by the size of noise and data at its level, over the data's density.
fn trajectories(file: &SolverFile) -> Result<Plane> {
    let model = Mixture::spiral();
    let mut plane = Plane::new("4. Trajectories, from noise to the spiral");
    plane.x = Axis::linear("").range(-REACH, REACH);
    plane.y = Axis::linear("").range(-REACH, REACH);
    let density = model.density().expect("a mixture has a density");
    let field = Field::sample((-REACH, REACH), (-REACH, REACH), 160, |x, y| density(&[x, y]));
    let levels = [0.03, 0.15, 0.45].map(|f| f * field.max()).to_vec();
    plane.field = Some((field, levels));
    let grid = file.grid()?;
    let fine = Schedule::Karras { rho: 7.0 }.grid(EXACT, (grid.last(), grid.sigmas()[0]))?;
    let exact = paths(&model, &Heun, &fine, false, fine.sigmas())?;
    let points = exact.iter().filter_map(|line| line.last().copied()).collect();
    plane.clouds.push(Cloud { name: "exact end".into(), points, colour: category(NOMINAL), radius: 4.5 });
    plane.paths.push(Paths { marker: Marker::None, ..Paths::new("exact", NOMINAL, exact) });
    let rival = paths(&model, &Ipndm::new(3)?, &grid, true, grid.sigmas())?;
    plane.paths.push(Paths::new(format!("iPNDM, {} calls", file.nfe), RIVAL, rival));
    let ours = paths(&model, &*file.build()?.solver, &grid, file.afs, &file.realised_times)?;
    plane.paths.push(Paths::new(format!("DyWeight, {} calls", file.nfe), OURS, ours));
    Ok(plane)
}

fn paths(model: &Mixture, solver: &dyn Solver, grid: &Grid, afs: bool, times: &[f64]) -> Result<Vec<Vec<Point>>> {
    let inside = |seed: &u64| {
        let noise = Rng::Native.latents(&[*seed], [2, 1, 1]);
        noise.is_ok_and(|noise| noise.data().iter().all(|v| v.abs() < REACH))
    };
    let seeds: Vec<u64> = (0..).filter(inside).take(DRAWN).collect();
    let noise = Rng::Native.latents(&seeds, [2, 1, 1])?;
    let mut lines = vec![Vec::new(); seeds.len()];
    sample_observed(model, &Plan::new(solver, grid).afs(afs), &noise, &mut |state| {
        let size = times[state.index].hypot(1.0);
        for (line, x) in lines.iter_mut().zip(state.x.tensor().data().chunks(2)) {
            line.push((x[0] / size, x[1] / size));
        }
        Ok(())
    })?;
    Ok(lines)
}
