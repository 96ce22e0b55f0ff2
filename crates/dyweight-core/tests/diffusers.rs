//! Solvers against the schedulers of diffusers on one mixture and one grid.
//!
//! `tools/diffusers_reference.py` made the numbers. Theirs are f32 in part, hence the tolerance. Where the two differ
//! on purpose, `docs/notation.md` says how; `cargo test -p dyweight-core --test diffusers -- --nocapture` prints its
//! table.

use dyweight_core::Tensor;
use dyweight_core::denoiser::Denoiser;
use dyweight_core::mixture::Mixture;
use dyweight_core::sample::{Plan, sample};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::{Deis, DeisMode, DpmPp, Form, Heun, Solver, UniPc};
use serde_json::Value;

struct Reference(Value);

impl Reference {
    fn open() -> Self {
        Self(serde_json::from_str(include_str!("data/diffusers.json")).unwrap())
    }

    fn cases(&self, list: &str) -> Vec<Case> {
        self.0[list].as_array().unwrap().iter().map(Case::of).collect()
    }

    fn run(&self, case: &Case, solver: &dyn Solver, grid: &Grid) -> Vec<f64> {
        let component = |c: &Value| (vec![numbers(c)[0]], numbers(c)[1], numbers(c)[2]);
        let mixture = Mixture::new(self.0["mixture"].as_array().unwrap().iter().map(component).collect()).unwrap();
        let model = if case.flow { mixture.as_flow() } else { mixture };
        assert_eq!(model.info().prediction, case.prediction());
        let starts = numbers(&self.0["starts"]);
        let noise = Tensor::new([starts.len(), 1, 1, 1], starts).unwrap();
        let run = sample(&model, &Plan::new(solver, grid), &noise);
        run.unwrap().samples.data().to_vec()
    }

    /// Ours on the grid of the case.
    fn ours(&self, case: &Case) -> Vec<f64> {
        let (order, form) = (case.order.unwrap_or(1), Form::default());
        let solver: Box<dyn Solver> = match case.solver.as_str() {
            "heun" => Box::new(Heun),
            "deis-tab" => Box::new(Deis::new(DeisMode::TimeAb, order).unwrap()),
            "dpmpp" => Box::new(DpmPp::new(order, form).unwrap()),
            "unipc" => Box::new(UniPc::new(order, form).unwrap()),
            other => panic!("no solver {other}"),
        };
        self.run(case, &*solver, &case.grid)
    }

    /// The solution between the ends of the grid.
    fn exact(&self, case: &Case) -> Vec<f64> {
        let sigmas = case.grid.sigmas();
        let ends = (sigmas[sigmas.len() - 1].max(1e-6), sigmas[0]);
        self.run(case, &Heun, &Schedule::Karras { rho: 7.0 }.grid(2000, ends).unwrap())
    }
}

struct Case {
    solver: String,
    order: Option<usize>,
    flow: bool,
    grid: Grid,
    theirs: Vec<f64>,
}

impl Case {
    fn of(value: &Value) -> Self {
        Self {
            solver: value["solver"].as_str().unwrap().into(),
            order: value["order"].as_u64().map(|order| order as usize),
            flow: value["flow"] == true,
            grid: Grid::new(numbers(&value["sigmas"])).unwrap(),
            theirs: numbers(&value["result"]),
        }
    }

    fn prediction(&self) -> dyweight_core::denoiser::Prediction {
        use dyweight_core::denoiser::Prediction::{Denoised, Velocity};
        if self.flow { Velocity } else { Denoised }
    }

    fn name(&self) -> String {
        let order = self.order.map_or(String::new(), |order| format!(" {order}"));
        let kind = if self.flow { "flow" } else { "denoised" };
        format!("{}{order}, {kind}, {} steps", self.solver, self.grid.steps())
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn farthest(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn the_schedulers_of_diffusers_give_the_same() {
    let reference = Reference::open();
    // More orders than steps: see the differences.
    let cases = reference.cases("cases").into_iter().filter(|case| case.order <= Some(case.grid.steps()));
    let errors: Vec<f64> = cases
        .map(|case| {
            let error = farthest(&reference.ours(&case), &case.theirs);
            assert!(error < 5e-7, "{}: off by {error:.1e}", case.name());
            error
        })
        .collect();
    println!("{} cases, the farthest off by {:.1e}", errors.len(), errors.iter().copied().fold(0.0, f64::max));
    assert_eq!(errors.len(), 71);
}

#[test]
fn differences_are_those_of_the_documents() {
    let reference = Reference::open();
    println!("| solver | apart | error here | error of diffusers |");
    for case in reference.cases("differences") {
        let (ours, exact) = (reference.ours(&case), reference.exact(&case));
        let apart = farthest(&ours, &case.theirs);
        let (here, there) = (farthest(&ours, &exact), farthest(&case.theirs, &exact));
        println!("| {} | {apart:.1e} | {here:.1e} | {there:.1e} |", case.name());
        assert!(apart > 1e-5, "{} is no difference: {apart:.1e}", case.name());
        // Ours is the better one but for DEIS, which is another method there.
        assert!(case.solver == "deis-tab" || here < there * 1.01, "{}: {here:.2e} {there:.2e}", case.name());
    }
}
