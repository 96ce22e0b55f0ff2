//! The programs in `examples/` run, and what they assert holds.

#[path = "../examples/compare.rs"]
mod compare;
#[path = "../examples/own_model.rs"]
mod own_model;
#[path = "../examples/sample.rs"]
mod sample;
#[path = "../examples/write_a_solver.rs"]
mod write_a_solver;

#[test]
fn a_model_of_your_own() {
    own_model::main().unwrap();
}

#[test]
fn samples_of_a_pretrained_model() {
    sample::main().unwrap();
}

#[test]
fn a_comparison() {
    compare::main().unwrap();
}

#[test]
fn a_solver_of_your_own() {
    write_a_solver::main().unwrap();
}
