//! The main table in a minute on the embedded model: few budgets, few pairs, few samples.

use super::main_table;
use super::setup::{FULL, StudySetup};
use super::{PLAIN, Study};
use crate::benchmark::Entry;
use dyweight_core::error::Result;
use dyweight_core::tape::Memory;
use dyweight_models::LoadedModel;
use dyweight_solvers::spec::Seeds;
use dyweight_train::{Optimiser, TrainSpec};
use std::sync::Arc;

/// Who is compared.
const ROWS: [&str; 6] = [FULL, "Euler (DDIM)", "Heun", "iPNDM", "DPM-Solver++", "UniPC"];

/// The quick look everyone starts with.
pub const QUICKSTART: Study = Study {
    name: "quickstart",
    title: "learned against handcrafted solvers",
    claim: "DyWeight is trained here for 3, 5 and 7 network calls and compared with handcrafted solvers that make as many, on the same noise. \
            The paper finds it ahead of all of them.",
    pair: main_table::STUDY.pair,
    asks_who_is_best: true,
    entries,
    finding: main_table::STUDY.finding,
    extra: main_table::STUDY.extra,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let all = (main_table::STUDY.entries)(setup);
    all.into_iter().filter(|e| ROWS.contains(&e.row.as_str())).collect()
}

impl StudySetup {
    /// Sizes for a minute on two cores, and the rule of descent that learns most in that time. A Fréchet distance of so
    /// few samples would say nothing, so there is none.
    pub fn quickstart(model: Arc<LoadedModel>) -> Result<Self> {
        let train = TrainSpec {
            optimiser: Some(Optimiser::Newton),
            iters: Some(36),
            batch: Some(8),
            validation: Some(16),
            validate_every: Some(12),
            teacher_nfe: Some(18),
            memory: Some(Memory::Keep),
            ..TrainSpec::default()
        };
        let seeds = Seeds::parse("0-95")?;
        let usual = Self::new(model, true)?;
        Ok(Self { budgets: vec![3, 5, 7], train, seeds, teacher_nfe: 18, batch: 32, ..usual })
    }
}
