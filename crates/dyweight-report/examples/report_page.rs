//! A page with a block of every kind, on made-up numbers:
//! `cargo run --example report_page -p dyweight-report -- OUT.html`.
//!
//! Also writes `OUT.md` and `OUT.csv` (its first table). The browser tests look at this page.

use dyweight_files::image::{Image, contact_sheet};
use dyweight_metrics::Estimate;
use dyweight_report::html::{Cell, Chart, Column, Compare, Gallery, Page, Table, Verdict};
use dyweight_report::{Axis, BarChart, BarSeries, Dash, Figure, LineChart, LossCurve, Series, coefficients};
use std::path::PathBuf;

const BUDGETS: [usize; 4] = [3, 5, 7, 9];
/// Name, and how fast its error falls.
const SOLVERS: [(&str, f64); 5] =
    [("euler", 0.10), ("ipndm", 0.21), ("dpm++-2m", 0.19), ("unipc", 0.23), ("dyweight", 0.37)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "report.html".into()));
    let page = page()?;
    std::fs::write(&path, page.render())?;
    std::fs::write(path.with_extension("md"), page.markdown())?;
    std::fs::write(path.with_extension("csv"), page.tables()[0].csv())?;
    Ok(())
}

fn page() -> dyweight_core::Result<Page> {
    let headline = "3 calls: dyweight is 29 % closer to the teacher than the best handcrafted solver.";
    let mut page = Page::new("Few-step sampling, a sample report").headline(headline).lead(
        "Every kind of block a report can hold, on made-up numbers. Real reports say here what was asked, of which \
         model, and what came out.",
    );
    quality(&mut page)?;
    pictures(&mut page)?;
    let learned = page.section("What was learned");
    learned.text("Row `i` holds the weights of step `i`; blank cells are slopes that do not exist yet.");
    learned.chart(Chart::new("Weights of a learned solver of seven steps, their sums and scales.", &weights())?);
    learned.chart(Chart::new("Loss of its training; the dashed line is `ipndm` at the same budget.", &loss())?);
    let run = page.section("How to repeat it");
    run.facts([
        ("Model", "fashion (embedded), 28 × 28"),
        ("Samples", "50 000 for each cell"),
        ("Noise", "native, seeds 0 … 49 999"),
        ("Fingerprint", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
    ]);
    run.links([("Numbers", "report.csv"), ("Solver, 3 calls", "solvers/dyweight nfe3.json")]);
    run.code("dyweight sample --model fashion --solver ipndm --nfe 5 \\\n    --seeds 0-63 --out samples", "sh");
    Ok(page)
}

fn fid(rate: f64, nfe: usize) -> Estimate {
    let value = 2.0 + 120.0 * (-rate * nfe as f64 * 1.4).exp();
    Estimate::new(value, 0.02 * value, 50_000)
}

fn quality(page: &mut Page) -> dyweight_core::Result<()> {
    let section = page.section("Quality");
    section.text("Fréchet distance to the training data. Errors are standard errors over resampled halves.");
    section.verdict(Verdict::Holds, "`dyweight` is clearly best at every budget from 3 to 9 calls.");
    let heads = BUDGETS.map(|nfe| Column::number(format!("NFE {nfe}")).hint("Fréchet").lower_is_better());
    let columns =
        [Column::text("Solver")].into_iter().chain(heads).chain([Column::number("Time").hint("ms per image")]);
    let mut table = Table::new("Fréchet distance by solver and number of network calls.", columns);
    for (index, (name, rate)) in SOLVERS.into_iter().enumerate() {
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(BUDGETS.map(|nfe| Cell::from((index != 3 || nfe > 3).then(|| fid(rate, nfe)))));
        row.push(Cell::number(1.31 + 0.04 * index as f64, 2));
        table.row(row);
    }
    section.table(table);
    section.verdict(Verdict::Mixed, "`unipc` is ahead of `ipndm` from 5 calls on; at 3 calls it was not run.");
    let mut chart = LineChart::new("", Axis::linear("network calls"), Axis::log("Fréchet distance"));
    for (index, (name, rate)) in SOLVERS.into_iter().enumerate() {
        let series: Vec<Estimate> = (3..=12).map(|nfe| fid(rate, nfe)).collect();
        let points = (3..=12).map(f64::from).zip(series.iter().map(|e| e.value)).collect();
        let line = Series::new(name, index, points).errors(series.iter().map(|e| e.error).collect());
        chart = chart.with(if index == 4 { line } else { line.dash(Dash::Dashed) });
    }
    section.chart(Chart::new("Quality against cost.", &Figure::single(chart, 480.0, 290.0))?);
    let bars = |title: &str, offset: usize| {
        let groups = BUDGETS.map(|nfe| format!("NFE {nfe}")).to_vec();
        let of = |rate: f64| BUDGETS.map(|nfe| fid(rate, nfe + offset));
        let series = |name: &str, index: usize, rate: f64| {
            BarSeries::new(name, index, of(rate).map(|e| e.value).to_vec()).errors(of(rate).map(|e| e.error).to_vec())
        };
        BarChart::new(title, groups, Axis::linear("Fréchet distance"))
            .with(series("ipndm", 1, 0.21))
            .with(series("dyweight", 0, 0.37))
    };
    let pair = Figure::new(2, (330.0, 220.0)).with(bars("Plain", 0)).with(bars("With an analytical first step", 1));
    section.chart(Chart::new("The same with and without an analytical first step.", &pair)?);
    section.verdict(Verdict::Fails, "An analytical first step helps every solver: not `euler` at 3 calls.");
    section.verdict(Verdict::Open, "Whether the gain carries over to larger models was not measured.");
    Ok(())
}

fn pictures(page: &mut Page) -> dyweight_core::Result<()> {
    let section = page.section("Pictures");
    section.text("The same noise, two solvers. Drag the divider, or use the arrow keys on the control below.");
    let choice = section.choice("Network calls");
    for nfe in BUDGETS {
        let caption = format!("Twelve samples in {nfe} calls: `ipndm` against `dyweight`.");
        let (left, right) = (sheet(0.21, nfe, 12)?, sheet(0.37, nfe, 12)?);
        let compare = Compare::new(caption, ("ipndm", left), ("dyweight", right));
        let (teacher, lack) = (sheet(9.0, nfe, 12)?, sheet(0.1, nfe, 12)?);
        choice.option(nfe.to_string()).compare(compare.with("teacher", teacher).with("dyweight − teacher", lack));
    }
    let mut gallery = Gallery::new("Contact sheets at five calls.", 3);
    for (name, rate) in [SOLVERS[0], SOLVERS[1], SOLVERS[4]] {
        gallery = gallery.with(name, sheet(rate, 5, 16)?);
    }
    section.images(gallery);
    // Drawings are larger than they are shown.
    let drawing = Image::new(640, 320, 1, (0..640 * 320).map(|i| (i % 640 / 3) as u8).collect())?;
    section.images(Gallery::new("A drawing.", 1).with("a ramp", drawing).drawn(true));
    Ok(())
}

fn sheet(rate: f64, nfe: usize, count: u32) -> dyweight_core::Result<Image> {
    let noise = (-rate * nfe as f64 * 0.8).exp();
    let images = (0..count).map(|i| thing(i, noise)).collect::<dyweight_core::Result<Vec<_>>>()?;
    contact_sheet(&images, 4, 1)
}

/// A soft shape of 28 x 28 pixels under noise.
fn thing(seed: u32, noise: f64) -> dyweight_core::Result<Image> {
    let (a, b) = (f64::from(seed % 5) * 0.12 + 0.5, f64::from(seed % 7) * 0.09 + 0.4);
    let mut state = u64::from(seed) * 7919 + 1;
    let pixel = |i: u32| {
        let (x, y) = (f64::from(i % 28) / 13.5 - 1.0, f64::from(i / 28) / 13.5 - 1.0);
        let body = 1.0 / (1.0 + (-9.0 * (1.0 - (x / a).powi(2) - (y / b).powi(4) - 0.3 * x * y)).exp());
        let stripes = 0.3 * (9.0 * (x + y * f64::from(seed % 3))).sin() * f64::from(seed % 4).min(1.0);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let speck = (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0;
        2.0 * body * (0.75 + stripes) - 1.0 + 1.5 * noise * speck
    };
    Image::from_sample(&(0..28 * 28).map(pixel).collect::<Vec<f64>>(), [1, 28, 28])
}

fn weights() -> Figure {
    let row = |n: usize| (0..=n).map(|i| if i == n { 1.7 } else { -0.9 / (n - i) as f64 + 0.05 * i as f64 }).collect();
    let rows: Vec<Vec<f64>> = (0..7).map(row).collect();
    coefficients("", &rows, &[1.01, 0.99, 1.02, 1.0, 0.98, 1.01])
}

fn loss() -> Figure {
    let at =
        |i: u32| (f64::from(i), 0.2 * (-f64::from(i) / 400.0).exp() + 0.02 + 0.004 * f64::from(i * 37 % 11) / 11.0);
    let training = (0..1500).map(at).collect();
    let validation = (0..=15).map(|i| at(i * 100)).collect();
    LossCurve { training, validation, baseline: Some(("ipndm".into(), 0.09)) }.figure("")
}
