//! The numerical study as a whole: resuming, threads, sub-grids, and agreement with independent numbers.

use dyweight_study::numeric::{Coupling, EndLoss, NumericOptions, Record, Settings, Startup, Stat, run};
use std::path::{Path, PathBuf};

/// An empty directory, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dyweight-numeric-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small() -> NumericOptions {
    let settings = Settings { dims: 12, problems: 3, iterations: 20, ..Settings::default() };
    NumericOptions { degrees: vec![5, 9], steps: vec![6, 8], orders: vec![1, 4], settings }
}

fn run_all(options: &NumericOptions, folder: &Path) -> dyweight_study::numeric::Summary {
    run(options, folder, &mut |_| Ok(())).unwrap()
}

#[test]
fn every_file_is_written_and_the_same_each_time() {
    let (a, b) = (Folder::new("first"), Folder::new("second"));
    let summary = run_all(&small(), &a.0);
    run_all(&small(), &b.0);
    assert_eq!((summary.records.len(), summary.resumed, summary.observations.len()), (8, 0, 4));
    assert_eq!(summary.files.len(), 10);
    for file in &summary.files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(a.bytes(name), b.bytes(name), "{name}");
    }
    let csv = String::from_utf8(a.bytes("numeric.csv")).unwrap();
    assert_eq!(csv.lines().count(), 9);
    assert!(csv.lines().all(|line| line.split(',').count() == 14), "{csv}");
    let json: serde_json::Value = serde_json::from_slice(&a.bytes("numeric.json")).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 8);
}

#[test]
fn an_interrupted_run_ends_like_an_uninterrupted_one() {
    let (whole, cut) = (Folder::new("whole"), Folder::new("cut"));
    run_all(&small(), &whole.0);
    for stop in [1, 2, 3] {
        let mut seen = 0;
        let stopped = run(&small(), &cut.0, &mut |_| {
            seen += 1;
            if seen == stop { Err(dyweight_core::Error::Cancelled) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(dyweight_core::Error::Cancelled)));
        // As if killed while writing the next line.
        let mut bytes = cut.bytes("records.jsonl");
        bytes.extend(b"{\"degree\":5,\"st");
        std::fs::write(cut.0.join("records.jsonl"), bytes).unwrap();
    }
    let summary = run_all(&small(), &cut.0);
    assert_eq!(summary.resumed, 6);
    for name in ["records.jsonl", "numeric.csv", "numeric.json", "numeric.md", "main.svg", "appendix.png"] {
        assert_eq!(whole.bytes(name), cut.bytes(name), "{name}");
    }
}

#[test]
fn threads_change_nothing() {
    let with = |threads: usize| {
        let folder = Folder::new(&format!("threads{threads}"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run_all(&small(), &folder.0));
        folder.bytes("records.jsonl")
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn a_cell_does_not_depend_on_the_grid_around_it() {
    let (grid, alone) = (Folder::new("grid"), Folder::new("alone"));
    let all = run_all(&small(), &grid.0).records;
    let one = NumericOptions { degrees: vec![9], steps: vec![8], orders: vec![4], ..small() };
    let record = run_all(&one, &alone.0).records.remove(0);
    assert!(all.contains(&record));
    // A directory can be extended by more cells, but not by other settings.
    assert_eq!(run_all(&small(), &alone.0).resumed, 1);
    let other = NumericOptions { settings: Settings { seed: 1, ..small().settings }, ..small() };
    assert!(run(&other, &alone.0, &mut |_| Ok(())).is_err());
}

/// One row of independent numbers: K, S, reading, then standard → optimised for each order; means over 10 problems
/// from a separate implementation, with the last digit as written.
struct Row(usize, usize, Coupling, Startup, EndLoss, [(&'static str, &'static str); 4]);

use Coupling::{Std, Variance};
use EndLoss::{L2, Mse};
use Startup::{Four, Order};

#[rustfmt::skip]
const ROWS: [Row; 19] = [
    Row(5, 6, Std, Order, Mse, [(".1994", ".0285"), (".0744", ".0099"), (".0259", ".0028"), (".0058", ".0016")]),
    Row(20, 14, Std, Order, Mse, [(".3378", ".0833"), (".1938", ".0468"), (".1207", ".0273"), (".0777", ".0174")]),
    Row(30, 14, Std, Order, Mse, [(".477", ".182"), (".342", ".127"), (".261", ".097"), (".205", ".077")]),
    Row(20, 14, Std, Four, Mse, [(".3378", ".0831"), (".1938", ".0472"), (".1207", ".0276"), (".0777", ".0174")]),
    Row(20, 14, Variance, Order, Mse, [(".3379", ".0885"), (".1937", ".0522"), (".1206", ".0290"), (".0776", ".0184")]),
    Row(20, 14, Std, Order, L2, [(".3378", ".0607"), (".1938", ".0315"), (".1207", ".0189"), (".0777", ".0126")]),
    Row(10, 8, Variance, Order, Mse, [(".2970", ".0802"), (".1555", ".0390"), (".0874", ".0196"), (".0494", ".0120")]),
    Row(10, 8, Std, Order, Mse, [(".2970", ".0640"), (".1557", ".0310"), (".0874", ".0168"), (".0492", ".0109")]),
    Row(40, 8, Std, Order, Mse, [(".757", ".600"), (".697", ".565"), (".658", ".542"), (".628", ".523")]),
    Row(5, 14, Std, Order, Mse, [(".0883", ".0060"), (".0158", ".0010"), (".0026", ".00014"), (".00028", ".00006")]),
    Row(10, 14, Std, Order, Mse, [(".1798", ".0205"), (".0625", ".0064"), (".0232", ".0021"), (".0085", ".0008")]),
    Row(40, 14, Std, Order, Mse, [(".580", ".303"), (".467", ".241"), (".394", ".201"), (".340", ".174")]),
    Row(20, 6, Std, Order, Mse, [(".613", ".375"), (".514", ".321"), (".450", ".290"), (".403", ".269")]),
    Row(20, 8, Std, Order, Mse, [(".514", ".239"), (".390", ".188"), (".315", ".157"), (".260", ".132")]),
    Row(20, 10, Std, Order, Mse, [(".439", ".159"), (".302", ".113"), (".223", ".084"), (".170", ".063")]),
    Row(20, 20, Std, Order, Mse, [(".2495", ".0413"), (".1135", ".0163"), (".0566", ".0077"), (".0291", ".0038")]),
    Row(20, 6, Std, Four, Mse, [(".610", ".378"), (".513", ".327"), (".450", ".293"), (".403", ".269")]),
    Row(5, 8, Std, Order, Mse, [(".1518", ".0153"), (".0446", ".0043"), (".0122", ".0009"), (".0022", ".0005")]),
    Row(40, 6, Std, Order, Mse, [(".823", ".719"), (".783", ".697"), (".758", ".686"), (".740", ".678")]),
];

/// How many standard errors of the difference lie between the listed mean (of 10 problems) and ours (of more). The
/// listed number's own rounding is taken off first.
fn distance(listed: &str, values: &[f64]) -> f64 {
    let value: f64 = format!("0{listed}").parse().unwrap();
    let rounding = 0.5 * 0.1f64.powi(listed.len() as i32 - 1);
    let stat = Stat::of(values);
    let spread = stat.se * (1.0 + values.len() as f64 / 10.0).sqrt();
    ((value - stat.mean).abs() - rounding).max(0.0) / spread
}

/// Distances of all numbers of a row, printed beside them.
fn compare(row: &Row, problems: usize) -> Vec<f64> {
    let Row(degree, steps, coupling, startup, loss, listed) = row;
    let folder = Folder::new(&format!("{degree}-{steps}-{coupling}-{startup}-{loss}"));
    let settings = Settings { problems, coupling: *coupling, startup: *startup, loss: *loss, ..Settings::default() };
    let options = NumericOptions { degrees: vec![*degree], steps: vec![*steps], settings, ..NumericOptions::default() };
    let records = run_all(&options, &folder.0).records;
    let pair = |(record, (standard, optimised)): (&Record, &(&str, &str))| {
        let distances = [distance(standard, &record.standard), distance(optimised, &record.optimised)];
        let (s, o) = (Stat::of(&record.standard), Stat::of(&record.optimised));
        println!(
            "| {degree} | {steps} | {coupling} | {startup} | {loss} | {} | {standard} → {optimised} | {:.5} ± {:.5} → {:.5} ± {:.5} | {:.1}, {:.1} |",
            record.cell.order, s.mean, s.se, o.mean, o.se, distances[0], distances[1]
        );
        distances
    };
    records.iter().zip(listed).flat_map(pair).collect()
}

/// A few cells with 50 problems always; all of them with 400 problems under `DYWEIGHT_SLOW=1`.
///
/// The listed means are of 10 problems, the same ones for all cells of a degree, so the 152 numbers are about five
/// independent draws and whole groups lie beyond two standard errors together (`docs/studies/numeric.md` says which).
/// None may lie beyond three.
#[test]
fn errors_agree_with_independent_numbers() {
    let slow = std::env::var_os("DYWEIGHT_SLOW").is_some();
    let (rows, problems) = if slow { (&ROWS[..], 400) } else { (&ROWS[..3], 50) };
    let distances: Vec<f64> = rows.iter().flat_map(|row| compare(row, problems)).collect();
    let worst = distances.iter().copied().fold(0.0, f64::max);
    let far = distances.iter().filter(|d| **d > 2.0).count();
    println!("{far} of {} beyond two standard errors, the farthest at {worst:.2}", distances.len());
    assert!(worst <= 3.0, "{worst} standard errors");
}

/// Records are read back on resume and may have been edited: whatever their numbers, tables and figures are made or
/// refused.
#[test]
fn odd_numbers_on_record_never_panic() {
    let settings = Settings { dims: 2, problems: 2, iterations: 0, ..Settings::default() };
    let options = NumericOptions { degrees: vec![1, 2], steps: vec![4, 5], orders: vec![1, 2], settings };
    let lists = ["[]", "[0.0]", "[0.0,0.0]", "[-1.0,1.0]", "[1e308,1e308]", "[5e-324,1e-320]", "[1e308,-1e308,5e-324]"];
    for (number, odd) in lists.iter().enumerate() {
        let folder = std::env::temp_dir().join(format!("dyweight-odd-records-{number}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let header = serde_json::json!({"study": "numeric", "version": 1, "settings": options.settings});
        let mut text = format!("{header}\n");
        for degree in [1, 2] {
            for (steps, order) in [(4, 1), (4, 2), (5, 1), (5, 2)] {
                text += &format!(
                    "{{\"degree\":{degree},\"steps\":{steps},\"order\":{order},\"standard\":{odd},\"optimised\":{odd},\
                     \"fresh\":{odd},\"fresh_standard\":{odd},\"teacher\":{odd}}}\n"
                );
            }
        }
        std::fs::write(folder.join("records.jsonl"), text).unwrap();
        let outcome = run(&options, &folder, &mut |_| panic!("every cell is on record"));
        println!("{odd}: {:?}", outcome.map(|summary| summary.files.len()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
