//! `dyweight metric clip | hps | image-reward`: how well images fit their prompts.

use super::folder::Folder;
use super::pairing::Pairing;
use super::report::{number, said};
use crate::files::text;
use crate::ui;
use clap::Args;
use dyweight::comm::Solo;
use dyweight::files::image::Image;
use dyweight::files::{NamedPath, OutputGuard, atomic, read_prompts};
use dyweight::metrics::Estimate;
use dyweight::models::{ScoreKind, Scorer, ScorerSpec};
use dyweight::{Error, Result};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Images of a batch, unless --batch says otherwise.
const BATCH: usize = 16;

/// Images and what they should show.
#[derive(Args)]
pub struct PromptedArgs {
    /// A folder of PNG files
    #[arg(value_name = "IMAGES")]
    images: PathBuf,
    /// A second folder, of images made from the same prompts and seeds under the same names: the first minus the second
    #[arg(value_name = "OTHER")]
    others: Option<PathBuf>,
    /// Prompts: one per line, JSON lines with 'prompt', or with --column a table
    #[arg(long, value_name = "FILE", help_heading = "Prompts")]
    prompts: PathBuf,
    /// Column of a comma-separated table that holds the prompts
    #[arg(long, value_name = "NAME", help_heading = "Prompts")]
    column: Option<String>,
    /// Which prompt belongs to an image: that of the same place in sorted order; beginning again after the last prompt
    /// (cycle); or the one whose number, from 0, stands before the first _ of its name (name)
    #[arg(long, value_name = "order|cycle|name", default_value = "order", help_heading = "Prompts")]
    pair: String,
    /// Weights of the network: a file or a folder
    #[arg(long = "network", alias = "weights", value_name = "PATH", help_heading = "Network")]
    weights: PathBuf,
    /// Where the tokenizer is [beside the weights]
    #[arg(long, value_name = "DIR|FILE", help_heading = "Network")]
    tokenizer: Option<PathBuf>,
    /// Configuration of the network [beside the weights]
    #[arg(long = "model-config", alias = "config", value_name = "FILE", help_heading = "Network")]
    config: Option<PathBuf>,
    /// How images are resized: pil, tv (torchvision), float or float-noaa (not antialiased) [pil; float for hps]
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    preprocess: Option<String>,
    /// Activation of CLIP's layers: quick_gelu or gelu [as the files say]
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    activation: Option<String>,
    /// Use the first N images, and refuse sets with fewer [all]
    #[arg(long, value_name = "N")]
    num: Option<usize>,
    /// Images per batch; changes nothing but speed and memory
    #[arg(long)]
    batch: Option<usize>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    threads: Option<usize>,
    /// CSV file for the value of each image
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// JSON file for the result
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl PromptedArgs {
    fn inputs(&self) -> Vec<NamedPath<'_>> {
        let mut inputs = vec![("--prompts", self.prompts.as_path()), ("--network", self.weights.as_path())];
        inputs.extend(self.tokenizer.iter().map(|path| ("--tokenizer", path.as_path())));
        inputs.extend(self.config.iter().map(|path| ("--model-config", path.as_path())));
        inputs
    }

    fn outputs(&self) -> Vec<NamedPath<'_>> {
        let csv = self.csv.iter().map(|path| ("--csv", path.as_path()));
        csv.chain(self.out.iter().map(|path| ("--out", path.as_path()))).collect()
    }

    fn spec(&self, kind: ScoreKind) -> ScorerSpec {
        ScorerSpec {
            kind,
            weights: self.weights.clone(),
            tokenizer: self.tokenizer.clone(),
            config: self.config.clone(),
            preprocess: self.preprocess.clone(),
            activation: self.activation.clone(),
        }
    }
}

/// Runs the command.
pub fn run(args: &PromptedArgs, kind: ScoreKind) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    let guard = OutputGuard::new(args.inputs());
    args.outputs().into_iter().fold(guard, |guard, (name, path)| guard.file(name, path)).check()?;
    let batch = args.batch.unwrap_or(BATCH);
    if batch == 0 {
        return Err(Error::bad_value("batch", "0", "at least one image per batch"));
    }
    let prompts = read_prompts(&args.prompts, args.column.as_deref())?;
    let pairing = Pairing::named(&args.pair)?;
    let open = |path: &Path| -> Result<(Folder, Vec<usize>)> {
        let folder = Folder::open(path, args.num)?;
        folder.refuse_others()?;
        args.outputs().iter().try_for_each(|(_, out)| folder.keep_apart(Some(out)))?;
        let numbers = pairing.prompts_of(&folder.files, &args.prompts, prompts.len())?;
        Ok((folder, numbers))
    };
    let (images, numbers) = open(&args.images)?;
    let others = args.others.as_deref().map(|path| Ok::<_, Error>((path, open(path)?.0))).transpose()?;
    if let Some((path, others)) = &others {
        images.refuse_odd(&args.images, others, path)?;
    }
    let scorer = args.spec(kind).build()?;
    let shown: Vec<&str> = numbers.iter().map(|number| prompts[*number].as_str()).collect();
    warn_of_cut(&scorer, &prompts, &numbers)?;
    let values = measure(&scorer, &images, &shown, batch)?;
    let theirs = others.map(|(_, others)| measure(&scorer, &others, &shown, batch)).transpose()?;
    let result = Outcome { args, scorer: &scorer, files: &images.files, prompts: &shown, values, theirs };
    result.give()
}

/// The score of each image, in order.
fn measure(scorer: &Scorer, folder: &Folder, prompts: &[&str], batch: usize) -> Result<Vec<f64>> {
    let mut progress = ui::Progress::new(scorer.kind().title(), folder.files.len());
    let mut values = Vec::with_capacity(folder.files.len());
    for (files, prompts) in folder.files.chunks(batch).zip(prompts.chunks(batch)) {
        // The first error in the order of the files, whoever meets one first.
        let read: Vec<Result<Image>> = files.par_iter().map(|file| Image::read_rgb(file)).collect();
        values.extend(scorer.scores(&read.into_iter().collect::<Result<Vec<_>>>()?, prompts)?);
        progress.add(files.len(), "");
        ui::go_on()?;
    }
    progress.finish();
    Ok(values)
}

/// Networks read the beginning of a long prompt, as published tools have them do; whoever wrote it should know.
fn warn_of_cut(scorer: &Scorer, prompts: &[String], numbers: &[usize]) -> Result<()> {
    let mut used = numbers.to_vec();
    used.sort_unstable();
    used.dedup();
    let cut: Vec<bool> = used.par_iter().map(|i| Ok(scorer.tokens(&prompts[*i])?.1)).collect::<Result<_>>()?;
    let count = cut.iter().filter(|cut| **cut).count();
    if let Some(first) = cut.iter().position(|cut| *cut) {
        let (first, all) = (used[first] + 1, used.len());
        ui::warn(&format!(
            "{count} of {all} prompts are longer than the network reads, first that of number {first}: cut off"
        ));
    }
    Ok(())
}

/// What was found.
struct Outcome<'r> {
    args: &'r PromptedArgs,
    scorer: &'r Scorer,
    files: &'r [PathBuf],
    prompts: &'r [&'r str],
    values: Vec<f64>,
    theirs: Option<Vec<f64>>,
}

impl Outcome<'_> {
    fn give(&self) -> Result<()> {
        let mean = Estimate::mean(&self.values);
        let theirs = self.theirs.as_ref().map(|theirs| (Estimate::mean(theirs), self.differences(theirs)));
        let facts = self.facts(&mean);
        if let Some(path) = &self.args.csv {
            atomic::write(path, self.csv().as_bytes())?;
        }
        if let Some(path) = &self.args.out {
            atomic::write(path, format!("{facts:#}\n").as_bytes())?;
        }
        if self.args.json {
            ui::print_json(&facts);
            return Ok(());
        }
        let name = self.scorer.kind().name();
        ui::print(&format!("{name}: {}", said(&mean)));
        if let Some((theirs, differences)) = theirs {
            ui::print(&format!("{name} of the second: {}", said(&theirs)));
            ui::print(&format!("difference, pair by pair: {}", said(&Estimate::mean(&differences))));
        }
        let (model, how) = (self.scorer.model(), self.scorer.preprocess().resampling.name());
        ui::say(&format!(
            "{} images, network {model} of {}, resized as {how}",
            self.values.len(),
            text(&self.args.weights)
        ));
        Ok(())
    }

    fn differences(&self, theirs: &[f64]) -> Vec<f64> {
        self.values.iter().zip(theirs).map(|(a, b)| a - b).collect()
    }

    fn facts(&self, mean: &Estimate) -> Value {
        let scorer = self.scorer;
        let mut facts = json!({
            "metric": scorer.kind().name(), "values": self.values, "mean": mean.value, "error": mean.error,
            "count": self.values.len(), "model": scorer.model(), "weights": text(&self.args.weights), "sha256": scorer.sha256(),
            "preprocess": scorer.preprocess().resampling.name(), "images": text(&self.args.images),
            "prompts": text(&self.args.prompts), "pair": self.args.pair,
        });
        if let (Some(theirs), Some(path)) = (&self.theirs, &self.args.others) {
            let (own, differences) = (Estimate::mean(theirs), self.differences(theirs));
            facts["second"] = json!({ "images": text(path), "values": theirs, "mean": own.value, "error": own.error });
            facts["difference"] = number(&Estimate::mean(&differences));
            facts["difference"]["values"] = json!(differences);
        }
        facts
    }

    fn csv(&self) -> String {
        let paired = if self.theirs.is_some() { ",second,difference" } else { "" };
        let mut table = format!("image,prompt,{}{paired}\n", self.scorer.kind().name());
        for (i, (file, value)) in self.files.iter().zip(&self.values).enumerate() {
            let name = text(file.strip_prefix(&self.args.images).unwrap_or(file));
            table += &format!("{},{},{value}", quoted(&name), quoted(self.prompts[i]));
            if let Some(theirs) = &self.theirs {
                table += &format!(",{},{}", theirs[i], value - theirs[i]);
            }
            table.push('\n');
        }
        table
    }
}

/// A cell of a table, in quotation marks where it needs them.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}
