//! `dyweight probe`: a model's answers, and their gradients, at given inputs: how to check a conversion against its
//! origin.

use crate::args::ModelArgs;
use crate::files::{batch, text};
use crate::{machine, ui};
use clap::Args;
use dyweight::comm::Solo;
use dyweight::denoiser::{Condition, Context, Differentiable, Levels, Model, TextContext};
use dyweight::error::shown;
use dyweight::files::{OutputGuard, StoredTensor, TensorFile};
use dyweight::models::ModelSpec;
use dyweight::models::latent::probe;
use dyweight::models::spec::AnyModel;
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What to evaluate where.
#[derive(Args)]
pub struct ProbeArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// One network of a latent model: unet, transformer, vae, text, text2 or clip [the whole denoiser]; its inputs are
    /// found by name
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Safetensors file with 'x' [n,c,h,w], 'sigma' [n], and optionally 'labels' [n,classes] or 'condition' and
    /// 'uncondition' [n,tokens,width] ('pooled' and 'unpooled' [n,width] with them, for a model that takes both), and
    /// 'cotangent' like x
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Safetensors file for 'denoised' ('velocity' of a flow) and, with a cotangent, 'grad_x' and 'grad_sigma'
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Guidance from 'uncondition' to 'condition'
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true, conflicts_with = "part")]
    guidance: Option<f64>,
    /// Noise table a latent diffusion model was trained with: sd15 or lsun-ldm [as its files say]
    #[arg(long, value_name = "NAME")]
    beta_table: Option<String>,
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
    let inputs = [args.model.files(), vec![("--input", args.input.as_path())]].concat();
    OutputGuard::new(inputs).file("--out", &args.out).check()?;
    let (started, before) = (Instant::now(), machine::processor_seconds());
    let (file, sha256) = match &args.part {
        Some(part) => {
            let spec = args.model.spec(None)?;
            let input = TensorFile::read(&args.input)?;
            probe(&spec.bundle()?, part, (&args.input, &input), spec.arithmetic()?)?
        }
        None => denoiser(args)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    let processor = machine::processor_seconds().zip(before).map(|(now, before)| now - before);
    file.write(&args.out)?;
    let names: Vec<&String> = file.tensors.keys().collect();
    if args.json {
        let mut facts = json!({ "model": args.model.model, "part": args.part, "sha256": sha256, "seconds": seconds,
            "processor_seconds": processor, "tensors": names, "file": text(&args.out) });
        if let Some(precision) = &args.model.options.precision {
            facts["precision"] = json!(precision);
        }
        ui::print_json(&facts);
    } else {
        ui::say(&format!("{} opened and evaluated in {}", args.model.model, ui::duration(seconds)));
        ui::print_path(&args.out);
    }
    Ok(())
}

/// The whole denoiser.
fn denoiser(args: &ProbeArgs) -> Result<(TensorFile, String)> {
    let input = Input::read(&args.input)?;
    let [_, c, h, w] = input.x.shape();
    let spec = ModelSpec { beta_table: args.beta_table.clone(), ..args.model.spec(Some([c, h, w]))? };
    let (model, sha256) = spec.open()?;
    let answers = match &model {
        AnyModel::Mixture(mixture) => input.evaluate(&*mixture.bind(&Condition::default())?)?,
        AnyModel::Network(network) => {
            let rows = input.labels.as_ref().map(|(rows, _)| rows.clone());
            input.check_labels(network.classes())?;
            input.evaluate(&network.bind_rows(rows))?
        }
        AnyModel::Latent(model) => input.evaluate_each(&**model, args.guidance)?,
        AnyModel::Flow(model) => input.evaluate_each(&**model, args.guidance)?,
    };
    Ok((input.file(&answers)?, sha256))
}

/// What a model says, and the way back.
struct Answers {
    name: &'static str,
    value: Tensor,
    gradients: Option<(Tensor, Vec<f64>)>,
}

/// Where the model is evaluated.
struct Input {
    path: PathBuf,
    x: Tensor,
    sigma: Vec<f64>,
    /// Rows and their width.
    labels: Option<(Vec<f32>, usize)>,
    /// Contexts of each sample: what is asked for, and what guidance leads away from.
    condition: Vec<Context>,
    uncondition: Vec<Context>,
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
        let contexts = |name: &str, pooled: &str| match file.tensors.get(name) {
            Some(tokens) => contexts(path, (name, tokens), (pooled, file.tensors.get(pooled)), x.samples()),
            None => Ok(Vec::new()),
        };
        let (condition, uncondition) = (contexts("condition", "pooled")?, contexts("uncondition", "unpooled")?);
        let (labels, cotangent) = (labels.transpose()?, cotangent.transpose()?);
        Ok(Self { path: path.into(), labels, condition, uncondition, cotangent, x, sigma })
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

    fn evaluate(&self, model: &dyn Differentiable) -> Result<Answers> {
        evaluate(model, &self.x, &Levels::Each(self.sigma.clone()), self.cotangent.as_ref())
    }

    /// Sample by sample, each with its own contexts.
    fn evaluate_each(&self, model: &dyn Model, guidance: Option<f64>) -> Result<Answers> {
        let of = |contexts: &[Context], i: usize| contexts.get(i).cloned().unwrap_or_default();
        let one = |i: usize| {
            let contexts = self.condition.get(i).cloned().into_iter().collect();
            let condition = Condition { contexts, negative: of(&self.uncondition, i), guidance };
            let cotangent = self.cotangent.as_ref().map(|c| c.slice(i..i + 1));
            let denoiser = model.denoiser(&condition)?;
            evaluate(&*denoiser, &self.x.slice(i..i + 1), &Levels::One(self.sigma[i]), cotangent.as_ref())
        };
        let all = (0..self.x.samples()).map(one).collect::<Result<Vec<Answers>>>()?;
        let name = all.first().map_or("denoised", |answers| answers.name);
        let (values, gradients): (Vec<Tensor>, Vec<_>) = all.into_iter().map(|a| (a.value, a.gradients)).unzip();
        let (to_x, to_sigma): (Vec<Tensor>, Vec<Vec<f64>>) = gradients.into_iter().flatten().unzip();
        let gradients = match to_x.is_empty() {
            true => None,
            false => Some((Tensor::concat(&to_x)?, to_sigma.concat())),
        };
        Ok(Answers { name, value: Tensor::concat(&values)?, gradients })
    }

    fn file(&self, answers: &Answers) -> Result<TensorFile> {
        let mut file = TensorFile::default();
        let mut insert = |name: &str, shape: &[usize], values: &[f64]| {
            let tensor = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(&self.path, p))?;
            file.tensors.insert(name.into(), tensor);
            Ok::<(), Error>(())
        };
        insert(answers.name, &self.x.shape(), answers.value.data())?;
        if let Some((to_x, to_sigma)) = &answers.gradients {
            insert("grad_x", &self.x.shape(), to_x.data())?;
            insert("grad_sigma", &[to_sigma.len()], to_sigma)?;
        }
        Ok(file)
    }
}

fn evaluate(model: &dyn Differentiable, x: &Tensor, levels: &Levels, cotangent: Option<&Tensor>) -> Result<Answers> {
    let name = match model.info().prediction {
        dyweight::denoiser::Prediction::Denoised => "denoised",
        dyweight::denoiser::Prediction::Velocity => "velocity",
    };
    match cotangent {
        None => Ok(Answers { name, value: model.predict(x, levels)?, gradients: None }),
        Some(cotangent) => {
            let (value, pullback) = model.with_pullback(x, levels)?;
            Ok(Answers { name, value, gradients: Some(pullback(cotangent)?) })
        }
    }
}

/// One encoded text for each sample: its tokens and, where the model takes one, the vector for the whole of it.
fn contexts(
    path: &Path,
    (name, tensor): (&str, &StoredTensor),
    (pooled_name, pooled): (&str, Option<&StoredTensor>),
    samples: usize,
) -> Result<Vec<Context>> {
    let (tokens, width) = match *tensor.shape() {
        [_, tokens, width] if tokens * width > 0 => (tokens, width),
        _ => (1, 1),
    };
    require_shape(path, name, tensor, &[samples, tokens, width])?;
    let vectors = match pooled {
        Some(pooled) => {
            let width = pooled.shape().get(1).copied().unwrap_or(1).max(1);
            require_shape(path, pooled_name, pooled, &[samples, width])?;
            pooled.to_f32().chunks(width).map(<[f32]>::to_vec).collect()
        }
        None => vec![Vec::new(); samples],
    };
    let numbers = tensor.to_f32();
    let text = |(tokens, pooled): (&[f32], Vec<f32>)| {
        Context::Text(Arc::new(TextContext { width, tokens: tokens.to_vec(), pooled }))
    };
    Ok(numbers.chunks(tokens * width).zip(vectors).map(text).collect())
}

fn described(path: &Path, name: &str) -> String {
    format!("tensor '{name}' in {}", shown(path))
}

fn require_shape(path: &Path, name: &str, tensor: &StoredTensor, expected: &[usize]) -> Result<()> {
    if tensor.shape() == expected {
        return Ok(());
    }
    let (expected, found) = (expected.to_vec(), tensor.shape().to_vec());
    Err(Error::Shape { what: described(path, name), expected, found })
}
