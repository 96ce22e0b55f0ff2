//! Work shared by several processes gives the bits of one. The processes here are threads with a made-up [`Comm`], so
//! that what MPI is asked to carry can be tested without MPI; `tests/mpi/run` does the same with real ones.

use crate::edm_common;
use dyweight::comm::{Comm, Solo};
use dyweight::models::{LoadedModel, ModelSpec};
use dyweight::noise::Rng;
use dyweight::spec::{Budget, ScheduleSpec, Seeds, SolverSpec};
use dyweight::study::benchmark::{Candidate, Entry, Experiment, Judging, Subject, run};
use dyweight::train::TrainSpec;
use dyweight::train::{Files, Loss, Optimiser, TrainConfig};
use dyweight::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What each of `size` processes makes of `work`, in the order of ranks.
fn together<T: Send>(size: usize, work: impl Fn(&Arc<dyn Comm>) -> T + Sync) -> Vec<T> {
    dyweight_testing::together(size, 1, work)
}

#[test]
fn shares_are_contiguous_complete_and_even() {
    for (size, range, unit) in [(1, 3..20, 1), (4, 0..3, 1), (3, 5..5, 1), (4, 7..100, 1), (3, 0..2000, 64)] {
        let shares = together(size, |comm| comm.share(&range, unit));
        let ends: Vec<usize> = shares.iter().map(|s| s.end).collect();
        assert_eq!(shares[0].start, range.start);
        assert_eq!(ends[size - 1], range.end);
        assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start), "{shares:?}");
        let lengths = shares.iter().map(|s| s.len());
        let (least, most) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        assert!(most - least <= unit, "{shares:?}");
    }
}

#[test]
fn results_come_in_order_and_failures_of_the_work_to_everyone() {
    for size in [1, 2, 5] {
        for all in
            together(size, |comm| comm.scatter_gather(0..13, 2, |mine| Ok(mine.map(|i| i as f64).collect::<Vec<_>>())))
        {
            assert_eq!(all.unwrap().concat(), (0..13).map(f64::from).collect::<Vec<_>>());
        }
        let parts = together(size, |comm| comm.gather(|| Ok(comm.rank())).unwrap());
        assert_eq!(parts[0], (0..size).collect::<Vec<_>>());
        assert!(parts[1..].iter().all(Vec::is_empty));
        let last = size - 1;
        assert_eq!(together(size, |comm| comm.any(comm.rank() == last).unwrap()), vec![true; size]);
        assert_eq!(together(size, |comm| comm.any(false).unwrap()), vec![false; size]);
        let said = together(size, |comm| comm.broadcast(|| Ok(format!("from {}", comm.rank()))).unwrap());
        assert_eq!(said, vec!["from 0"; size]);
        // Whoever stops while the others wait for what it finds stops them all.
        let stopped = |comm: &Arc<dyn Comm>| comm.broadcast(|| Err::<bool, _>(Error::Cancelled));
        assert!(together(size, stopped).into_iter().all(|result| matches!(result, Err(Error::Cancelled))));
        // In the same words as in one process, whatever it is about.
        for tensor in ["the state", "the network's output"] {
            let failure = || {
                let (solver, sigma, value) = ("euler".to_string(), 0.1, f64::NAN);
                Error::Diverged { solver, step: 3, sigma, tensor, sample: 7, value }
            };
            let lost = |comm: &Arc<dyn Comm>| {
                let work = || if comm.rank() == last { Err(failure()) } else { Ok(true) };
                let result: Result<Vec<bool>> = comm.all_gather(work);
                result.unwrap_err().to_string()
            };
            let said = together(size, lost);
            assert!(said.iter().all(|text| text == &failure().to_string() && text.contains("in sample 7")), "{said:?}");
        }
        let stopped = |comm: &Arc<dyn Comm>| {
            let result: Result<Vec<bool>> =
                comm.gather(|| if comm.rank() == last { Err(Error::Cancelled) } else { Ok(true) });
            matches!(result, Err(Error::Cancelled))
        };
        assert_eq!(together(size, stopped), vec![true; size]);
    }
}

fn mixture() -> LoadedModel {
    ModelSpec::named("mixture").build().unwrap()
}

/// A directory of a test's own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dyweight-processes-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// All files below by their names, but those that tell the time.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(directory: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                match path.is_dir() {
                    true => walk(&path, root, files),
                    false if name != "times.jsonl" => drop(files.insert(name, std::fs::read(&path).unwrap())),
                    false => {}
                }
            }
        }
        let mut files = BTreeMap::new();
        walk(&self.0, &self.0, &mut files);
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// 17 pairs: shares are uneven and cross the borders of stored chunks.
fn short() -> TrainSpec {
    let (iters, batch, validation) = (Some(12), Some(17), Some(21));
    TrainSpec { iters, batch, validation, micro_batch: Some(4), teacher_nfe: Some(12), ..TrainSpec::default() }
}

/// Trains in a directory, stopping in process `stopper` after so many iterations; the parameters found.
fn train(comm: &Arc<dyn Comm>, place: &Path, stop: Option<(usize, usize)>, resume: bool) -> Result<Vec<f64>> {
    train_on(&mixture(), short(), comm, place, stop, resume)
}

fn train_on(
    loaded: &LoadedModel,
    spec: TrainSpec,
    comm: &Arc<dyn Comm>,
    place: &Path,
    stop: Option<(usize, usize)>,
    resume: bool,
) -> Result<Vec<f64>> {
    let config = TrainConfig {
        comm: comm.clone(),
        cache: Some(place.join("teacher")),
        files: Some(Files::beside(&place.join("solver.json"))),
        resume,
        ..TrainConfig::new(loaded.model.clone(), loaded.identity(), Budget::Nfe(4), spec, Loss::L2)
    };
    let trainer = config.prepare()?;
    let trained = trainer.run(&trainer.dataset()?, &mut |iteration, _| match stop {
        Some((rank, after)) if rank == comm.rank() && iteration.index + 1 == after => Err(Error::Cancelled),
        _ => Ok(()),
    })?;
    Ok(trained.run.result().to_vec())
}

/// One process alone is asked to stop: without files too, no other waits for it.
#[test]
fn a_run_without_files_stops_in_all_processes_at_the_same_iteration() {
    let stopped = together(3, |comm| {
        let spec = TrainSpec { iters: Some(9), batch: Some(6), validation: Some(6), ..TrainSpec::default() };
        let loaded = ModelSpec::named("mixture").build().unwrap();
        let config = TrainConfig {
            comm: comm.clone(),
            ..TrainConfig::new(loaded.model.clone(), loaded.identity(), Budget::Nfe(3), spec, Loss::L2)
        };
        let (trainer, mut last) = (config.prepare().unwrap(), 0);
        let outcome = trainer.run(&trainer.dataset().unwrap(), &mut |iteration, _| {
            last = iteration.index;
            if comm.rank() == 2 && last == 1 { Err(Error::Cancelled) } else { Ok(()) }
        });
        assert!(matches!(outcome.err(), Some(Error::Cancelled)));
        last
    });
    assert_eq!(stopped, [1, 1, 1]);
}

#[test]
fn training_has_the_same_bits_for_any_number_of_processes() {
    let alone = Place::new("alone");
    let expected = train(&alone_comm(), &alone.0, None, false).unwrap();
    for size in [2, 3, 4] {
        let place = Place::new(&format!("{size}"));
        for found in together(size, |comm| train(comm, &place.0, None, false).unwrap()) {
            assert_eq!(found, expected, "{size} processes");
        }
        // Targets, log and state too; and with the targets on disk.
        assert!(place.files() == alone.files(), "{size} processes leave other files");
        for found in together(size, |comm| train(comm, &place.0, None, false).unwrap()) {
            assert_eq!(found, expected, "{size} processes with stored targets");
        }
    }
}

#[test]
fn a_run_stopped_in_any_process_is_resumed_by_any_number() {
    let alone = Place::new("whole");
    let expected = train(&alone_comm(), &alone.0, None, false).unwrap();
    let place = Place::new("stopped");
    for ended in together(3, |comm| train(comm, &place.0, Some((2, 5)), false)) {
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    }
    for ended in together(2, |comm| train(comm, &place.0, Some((1, 9)), true)) {
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    }
    assert_eq!(train(&alone_comm(), &place.0, None, true).unwrap(), expected);
    assert!(place.files() == alone.files(), "other files are left");
}

/// Kernels have a group of their own in the optimiser, whose moments are part of the state.
#[test]
fn a_wider_span_has_the_same_bits_for_any_number_of_processes_and_when_resumed() {
    same_bits_with_a_span("span", Optimiser::Adam);
}

/// So is what second-order descent knows.
#[test]
fn second_order_descent_has_the_same_bits_for_any_number_of_processes_and_when_resumed() {
    same_bits_with_a_span("second-order", Optimiser::Newton);
}

/// So is what Gauss–Newton knows; its solves are shared pair by pair.
#[test]
fn whole_solves_have_the_same_bits_for_any_number_of_processes_and_when_resumed() {
    let spec = TrainSpec {
        optimiser: Some(Optimiser::GaussNewton),
        iters: Some(5),
        pairs: Some(7),
        validation: Some(5),
        patience: Some(9),
        ..TrainSpec::default()
    };
    let train = |comm: &Arc<dyn Comm>, place: &Place, micro: usize, stop, resume| {
        train_on(&mixture(), TrainSpec { micro_batch: Some(micro), ..spec.clone() }, comm, &place.0, stop, resume)
    };
    let alone = Place::new("whole-solves-alone");
    let expected = train(&alone_comm(), &alone, 16, None, false).unwrap();
    for (size, micro) in [(1, 3), (3, 16), (4, 2)] {
        let place = Place::new(&format!("whole-solves-{size}"));
        for ended in together(size, |comm| train(comm, &place, micro, Some((size - 1, 2)), false)) {
            assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        }
        for found in together(2, |comm| train(comm, &place, 4, None, true).unwrap()) {
            assert_eq!(found, expected, "{size} processes");
        }
        assert!(place.files() == alone.files(), "{size} processes leave other files");
    }
}

fn same_bits_with_a_span(name: &str, optimiser: Optimiser) {
    let loaded = ModelSpec { shape: Some([1, 1, 2]), ..ModelSpec::named("mixture") }.build().unwrap();
    let mut spec = TrainSpec { optimiser: Some(optimiser), ..short() };
    spec.dyweight.span = Some("state,bands:1,operator:3".parse().unwrap());
    let train = |comm: &Arc<dyn Comm>, place: &Place, stop, resume| {
        train_on(&loaded, spec.clone(), comm, &place.0, stop, resume)
    };
    let alone = Place::new(&format!("{name}-alone"));
    let expected = train(&alone_comm(), &alone, None, false).unwrap();
    let place = Place::new(&format!("{name}-3"));
    for ended in together(3, |comm| train(comm, &place, Some((1, 5)), false)) {
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    }
    for found in together(2, |comm| train(comm, &place, None, true).unwrap()) {
        assert_eq!(found, expected);
    }
    assert!(place.files() == alone.files(), "other files are left");
}

/// Shifts of the embedding are the network's affair: derivatives in them come from its pullback, whole batches or
/// parts.
#[test]
fn shifts_of_an_embedding_have_the_same_bits_for_any_number_of_processes_and_when_resumed() {
    let network = edm_common::random(serde_json::json!({"label_dim": 3}));
    let loaded = LoadedModel {
        name: "small".into(),
        sha256: "00".repeat(32),
        settings: serde_json::Value::Null,
        model: Arc::new(network),
    };
    let mut spec = TrainSpec { iters: Some(6), validation: Some(5), guidance: Some(1.5), ..short() };
    spec.dyweight.span = Some("state,sample,embedding".parse().unwrap());
    let train = |comm: &Arc<dyn Comm>, place: &Place, stop, resume| {
        train_on(&loaded, spec.clone(), comm, &place.0, stop, resume)
    };
    let alone = Place::new("embedding-alone");
    let expected = train(&alone_comm(), &alone, None, false).unwrap();
    let place = Place::new("embedding-3");
    for ended in together(3, |comm| train(comm, &place, Some((1, 3)), false)) {
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    }
    for found in together(2, |comm| train(comm, &place, None, true).unwrap()) {
        assert_eq!(found, expected);
    }
    assert!(place.files() == alone.files(), "other files are left");
}

fn alone_comm() -> Arc<dyn Comm> {
    Arc::new(Solo)
}

#[test]
fn an_experiment_leaves_the_same_records_for_any_number_of_processes() {
    let experiment = || {
        let subject = Subject::new(Arc::new(mixture()));
        let handcrafted = |name: &str| {
            let schedule = ScheduleSpec::default();
            Candidate::Handcrafted { solver: SolverSpec::named(name), schedule, afs: false }
        };
        let learned = |after| {
            let (train, schedule) = (Box::new(short()), ScheduleSpec::default());
            Candidate::Learned { train, schedule, on: 0, after }
        };
        let entries = vec![
            Entry::new("Euler", 4, handcrafted("euler")),
            Entry::new("DyWeight", 4, learned(None)),
            Entry::new("DyWeight on the way", 4, learned(Some(6))),
            Entry::new("Euler again", 4, handcrafted("euler")),
        ];
        let (teacher, schedule) = (SolverSpec::named("ipndm"), ScheduleSpec::default());
        let seeds = Seeds::parse("0-50").unwrap();
        let judging = Judging {
            seeds,
            rng: Rng::Native,
            teacher,
            teacher_nfe: Some(12),
            schedule,
            reference: None,
            judge: None,
            scorers: Vec::new(),
            batch: 8,
            pictures: true,
        };
        Experiment::new("test", vec![subject], entries, judging).unwrap()
    };
    let alone = Place::new("experiment");
    run(&experiment(), &alone.0, &alone_comm(), &mut ()).unwrap();
    let expected = alone.files();
    assert!(expected.contains_key("records.jsonl") && !expected.contains_key(".lock"), "{:?}", expected.keys());
    for size in [2, 3] {
        let place = Place::new(&format!("experiment-{size}"));
        let results = together(size, |comm| run(&experiment(), &place.0, comm, &mut ()).unwrap().scores);
        // Entries that differ, and the teacher against the exact solution.
        assert!(results.iter().all(|scores| scores == &results[0] && scores.len() == 4));
        let found = place.files();
        assert!(found.keys().eq(expected.keys()), "{:?} {:?}", found.keys(), expected.keys());
        for (name, bytes) in &expected {
            assert!(&found[name] == bytes, "{name} differs with {size} processes");
        }
    }
}
