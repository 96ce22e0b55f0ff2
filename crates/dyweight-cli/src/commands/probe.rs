//! `dyweight probe`: a model's answers, and their gradients, at given inputs: how to check a conversion against its origin.

use crate::args::ModelArgs;
use crate::files::batch;
use crate::ui;
use clap::Args;
use dyweight::checkpoint::{StoredTensor, TensorFile};
use dyweight::comm::Solo;
use dyweight::denoiser::{Condition, Differentiable, Levels, Model};
use dyweight::spec::model::AnyModel;
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to evaluate where.
#[derive(Args)]
pub struct ProbeArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Safetensors file with 'x' [n,c,h,w], 'sigma' [n], and optionally 'labels' [n,classes] and 'cotangent' like x
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Safetensors file for 'denoised' ('velocity' of a flow) and, with a cotangent, 'grad_x' and 'grad_sigma'
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    threads: Option<usize>,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ProbeArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    let input = Input::read(&args.input)?;
    let [_, c, h, w] = input.x.shape();
    let (model, sha256) = args.model.spec(Some([c, h, w]))?.open()?;
    let started = Instant::now();
    let file = match &model {
        AnyModel::Mixture(mixture) => input.evaluate(&*mixture.bind(&Condition::default())?)?,
        AnyModel::Network(network) => {
            let rows = input.labels.as_ref().map(|(rows, _)| rows.clone());
            input.check_labels(network.classes())?;
            input.evaluate(&network.bind_rows(rows))?
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    file.write(&args.out)?;
    let names: Vec<&String> = file.tensors.keys().collect();
    if args.json {
        let facts = json!({ "model": args.model.model, "sha256": sha256, "samples": input.x.samples(),
            "seconds": seconds, "tensors": names, "file": args.out });
        ui::print_json(&facts);
    } else {
        eprintln!("{} samples of {} in {}", input.x.samples(), args.model.model, ui::duration(seconds));
        ui::print(&args.out.display().to_string());
    }
    Ok(())
}

/// Where the model is evaluated.
struct Input {
    path: PathBuf,
    x: Tensor,
    sigma: Vec<f64>,
    /// Rows and their width.
    labels: Option<(Vec<f32>, usize)>,
    cotangent: Option<Tensor>,
}

impl Input {
    fn read(path: &Path) -> Result<Self> {
        let file = TensorFile::read(path)?;
        let tensor = |name: &str| file.tensor(name).map_err(|p| Error::malformed(path, p));
        let x = batch(path, "x", tensor("x")?)?;
        let sigma = tensor("sigma")?;
        require_shape(path, "sigma", sigma, &[x.samples()])?;
        let sigma = sigma.to_f64();
        if let Some(index) = sigma.iter().position(|v| !v.is_finite()) {
            let what = described(path, "sigma");
            return Err(Error::NotFinite { what, index, value: sigma[index] });
        }
        let labels = file.tensors.get("labels").map(|labels| {
            let width = labels.shape().last().copied().unwrap_or(0);
            require_shape(path, "labels", labels, &[x.samples(), width])?;
            Ok((labels.to_f32(), width))
        });
        let cotangent = file.tensors.get("cotangent").map(|cotangent| {
            require_shape(path, "cotangent", cotangent, &x.shape())?;
            batch(path, "cotangent", cotangent)
        });
        Ok(Self { path: path.into(), labels: labels.transpose()?, cotangent: cotangent.transpose()?, x, sigma })
    }

    fn check_labels(&self, classes: usize) -> Result<()> {
        match self.labels {
            Some((_, width)) if classes > 0 && width != classes => {
                let (n, what) = (self.x.samples(), described(&self.path, "labels"));
                Err(Error::Shape { what, expected: vec![n, classes], found: vec![n, width] })
            }
            _ => Ok(()),
        }
    }

    fn evaluate(&self, model: &dyn Differentiable) -> Result<TensorFile> {
        let levels = Levels::Each(self.sigma.clone());
        let name = match model.prediction() {
            dyweight::denoiser::Prediction::Denoised => "denoised",
            dyweight::denoiser::Prediction::Velocity => "velocity",
        };
        let mut file = TensorFile::default();
        let mut insert = |name: &str, shape: &[usize], values: &[f64]| {
            let tensor = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(&self.path, p))?;
            file.tensors.insert(name.into(), tensor);
            Ok::<(), Error>(())
        };
        match &self.cotangent {
            None => insert(name, &self.x.shape(), model.predict(&self.x, &levels)?.data())?,
            Some(cotangent) => {
                let (value, pullback) = model.with_pullback(&self.x, &levels)?;
                let (to_x, to_sigma) = pullback(cotangent)?;
                insert(name, &self.x.shape(), value.data())?;
                insert("grad_x", &self.x.shape(), to_x.data())?;
                insert("grad_sigma", &[to_sigma.len()], &to_sigma)?;
            }
        }
        Ok(file)
    }
}

fn described(path: &Path, name: &str) -> String {
    format!("tensor '{name}' in {}", path.display())
}

fn require_shape(path: &Path, name: &str, tensor: &StoredTensor, expected: &[usize]) -> Result<()> {
    if tensor.shape() == expected {
        return Ok(());
    }
    let (expected, found) = (expected.to_vec(), tensor.shape().to_vec());
    Err(Error::Shape { what: described(path, name), expected, found })
}
