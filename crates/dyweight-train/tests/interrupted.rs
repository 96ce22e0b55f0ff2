//! A request to stop, heard between two calls of a network.

use dyweight_core::error::{Error, Result};
use dyweight_core::mixture::Mixture;
use dyweight_solvers::solver_file::ModelIdentity;
use dyweight_solvers::spec::Budget;
use dyweight_train::{Files, Loss, TrainConfig, TrainSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A short run whose request to stop comes with the call of that number, from the files at `out`.
fn run(method: &str, out: &std::path::Path, limit: usize) -> (Result<Vec<f64>>, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let spec = TrainSpec {
        method: Some(method.into()),
        iters: Some(6),
        batch: Some(8),
        validation: Some(16),
        validate_every: Some(3),
        ..TrainSpec::default()
    };
    let identity = ModelIdentity { name: "spiral".into(), sha256: Some("spiral".into()) };
    let config = TrainConfig {
        files: Some(Files::beside(out)),
        resume: true,
        stop: Some({
            let calls = calls.clone();
            Arc::new(move || calls.fetch_add(1, Ordering::Relaxed) >= limit)
        }),
        ..TrainConfig::new(Arc::new(Mixture::spiral()), identity, Budget::Nfe(5), spec, Loss::L2)
    };
    let found = (|| {
        let trainer = config.prepare()?;
        let trained = trainer.run(&trainer.dataset()?, &mut |_, _| Ok(()))?;
        Ok(trained.params)
    })();
    (found, calls.load(Ordering::Relaxed))
}

#[test]
fn a_request_is_heard_between_two_calls_and_nothing_is_lost() {
    let place = std::env::temp_dir().join(format!("dyweight-stop-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    for method in ["dyweight", "amed"] {
        let (expected, all) = run(method, &place.join(format!("{method}.json")), usize::MAX);
        let expected = expected.unwrap();
        for (k, limit) in (all / 12..all).step_by(all / 12).enumerate() {
            let out = place.join(format!("{method}-{k}.json"));
            let (stopped, calls) = run(method, &out, limit);
            assert!(matches!(stopped, Err(Error::Cancelled)), "{method}, call {limit} of {all}");
            // Other threads are in a call of their own.
            assert!(calls <= limit + 2 * rayon::current_num_threads(), "{calls} calls after {limit}");
            assert_eq!(run(method, &out, usize::MAX).0.unwrap(), expected, "{method}, call {limit} of {all}");
        }
    }
    std::fs::remove_dir_all(place).unwrap();
}
