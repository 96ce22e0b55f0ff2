//! `dyweight metric teacher`: samples against a teacher's from the same noise.

use super::folder::{Folder, require_enough};
use super::report::{number, said};
use crate::files::{batch, text};
use crate::ui;
use clap::Args;
use dyweight::comm::Solo;
use dyweight::error::shown;
use dyweight::files::{OutputGuard, TensorFile, atomic};
use dyweight::metrics::teacher::{psnr, rmse, squared_errors};
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Two sets, image by image.
#[derive(Args)]
pub struct TeacherArgs {
    /// A folder of PNG files, or a safetensors file with 'samples'
    #[arg(value_name = "SAMPLES")]
    samples: PathBuf,
    /// The teacher's, under the same names
    #[arg(value_name = "TEACHER")]
    teacher: PathBuf,
    /// Use the first N, and refuse sets with fewer [all]
    #[arg(long, value_name = "N")]
    num: Option<usize>,
    /// Images per batch; changes nothing but speed and memory
    #[arg(long)]
    batch: Option<usize>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    threads: Option<usize>,
    /// JSON file for the result
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TeacherArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    // Folders of images are looked through when they are opened.
    let sets = [("the samples", args.samples.as_path()), ("the teacher's", args.teacher.as_path())];
    let guard = OutputGuard::new(sets.into_iter().filter(|(_, set)| !set.is_dir()));
    args.out.iter().fold(guard, |guard, path| guard.file("--out", path)).check()?;
    if args.batch == Some(0) {
        return Err(Error::bad_value("batch", "0", "at least one image per batch"));
    }
    let errors = if args.samples.is_dir() { folders(args)? } else { files(args)? };
    let (rmse, psnr) = (rmse(&errors), psnr(&errors));
    let facts = json!({
        "rmse": number(&rmse), "psnr": number(&psnr), "samples": text(&args.samples), "teacher": text(&args.teacher),
        "count": errors.len(),
    });
    if let Some(path) = &args.out {
        atomic::write(path, format!("{facts:#}\n").as_bytes())?;
    }
    if args.json {
        ui::print_json(&facts);
    } else {
        ui::print(&format!("rmse: {}", said(&rmse)));
        ui::print(&format!("psnr: {} dB", said(&psnr)));
        ui::say(&format!("{} pairs, values in [-1, 1]", errors.len()));
    }
    Ok(())
}

fn folders(args: &TeacherArgs) -> Result<Vec<f64>> {
    let samples = Folder::open(&args.samples, args.num)?;
    let teacher = Folder::open(&args.teacher, args.num)?;
    [&samples, &teacher].into_iter().try_for_each(|folder| folder.keep_apart(args.out.as_deref()))?;
    samples.count_others(&args.samples);
    teacher.count_others(&args.teacher);
    samples.refuse_odd(&args.samples, &teacher, &args.teacher)?;
    let (mut errors, mut progress) = (Vec::new(), ui::Progress::new("comparing", samples.files.len()));
    let batch = args.batch.unwrap_or(256);
    for (a, b) in samples.files.chunks(batch).zip(teacher.files.chunks(batch)) {
        errors.extend(squared_errors(&samples.batch(a)?, &teacher.batch(b)?)?);
        progress.add(a.len(), "");
        ui::go_on()?;
    }
    progress.finish();
    Ok(errors)
}

fn files(args: &TeacherArgs) -> Result<Vec<f64>> {
    let read = |path: &Path| -> Result<Tensor> {
        let file = TensorFile::read(path)?;
        let samples = file.tensor("samples").map_err(|p| Error::malformed(path, p))?;
        let samples = batch(path, "samples", samples)?;
        let Some(num) = args.num else { return Ok(samples) };
        require_enough(&shown(path), samples.samples(), num)?;
        Ok(samples.slice(0..num))
    };
    squared_errors(&read(&args.samples)?, &read(&args.teacher)?)
}
