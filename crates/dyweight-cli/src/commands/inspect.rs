//! `dyweight inspect`.

use super::inspect_latent;
use crate::files::text;
use crate::ui;
use clap::Args;
use dyweight::error::shown;
use dyweight::files::Malformed;
use dyweight::files::{
    Format, NetworkFile, OfficialCoefficients, SharedBytes, StoredTensor, TensorFile, TorchFile, read_data, sniff,
};
use dyweight::learned::released;
use dyweight::models::ModelSpec;
use dyweight::models::edm::{PUBLISHED, parameters};
use dyweight::models::inception::InceptionFile;
use dyweight::models::latent::RANDOM;
use dyweight::models::spec::BUILT_IN;
use dyweight::presets;
use dyweight::solver_file::{Asked, SolverFile};
use dyweight::{Error, Result, option};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to look into.
#[derive(Args)]
pub struct InspectArgs {
    /// A solver file, preset:NAME, a released coefficient file, a network checkpoint (.pkl, .safetensors, .pt, .ckpt),
    /// a diffusers folder, owner/name of the local Hugging Face cache, or random:NAME
    pub(super) file: PathBuf,
    /// Configuration of a weights file that carries none
    #[arg(long = "model-config", alias = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// How exact the products of networks are: f32, or factors of 16 bits, bf16, where the processor has it [f32]
    #[arg(long, value_name = "NAME")]
    pub(super) precision: Option<String>,
    /// Network calls, of a solver file that serves a range of budgets
    #[arg(long, value_name = "N")]
    pub(super) nfe: Option<usize>,
    /// Guidance, with --nfe, of a solver file that serves a range of it
    #[arg(long, value_name = "G", requires = "nfe")]
    pub(super) guidance: Option<f64>,
    /// Height of the images of a latent diffusion model [as trained]
    #[arg(long, value_name = "PIXELS")]
    pub(super) height: Option<usize>,
    /// Width of the images of a latent diffusion model [as trained]
    #[arg(long, value_name = "PIXELS")]
    pub(super) width: Option<usize>,
    /// Folder with vocab.json and merges.txt, for a text encoder that came without
    #[arg(long, value_name = "DIR")]
    pub(super) tokenizer: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    let path = &args.file;
    if let Some(name) = path.to_str().and_then(|name| name.strip_prefix("preset:")) {
        let (name, file) = presets::find(name)?;
        let facts = json!({ "file": format!("preset:{name}"), "bytes": file.to_bytes().len(), "format": "a preset" });
        return solver(args, facts, file);
    }
    refuse_built_in(path)?;
    let path = &match path.to_str() {
        Some(name) => ModelSpec::named(name).path()?,
        None => path.clone(),
    };
    if path.is_dir() || path.to_str().is_some_and(|name| name.starts_with("random:")) {
        return model(args);
    }
    let bytes = read_data(path)?;
    let size = bytes.len();
    let format = sniff(&bytes);
    let named = |problem| Error::malformed(path, problem);
    let mut facts = json!({ "file": text(path), "bytes": size, "format": format.describe() });
    match format {
        Format::Safetensors => {
            let file = TensorFile::parse(bytes).map_err(named)?;
            facts["metadata"] = json!(file.metadata);
            if let Some(Ok(Value::Object(config))) = file.metadata.get("config").map(|c| serde_json::from_str(c)) {
                add_architecture(&mut facts, &config);
            }
            add_inception(&mut facts, path, &file.tensors);
            facts["tensors"] = file.tensors.iter().map(|(name, t)| tensor_facts(name, t)).collect();
            with_model(args, facts, tensor_table)
        }
        Format::SolverFile | Format::Json => {
            solver(args, facts, SolverFile::parse(&bytes).map_err(|p| Error::malformed(path, p))?)
        }
        Format::Pickle | Format::TorchZip | Format::TorchLegacy | Format::Zip => match Content::parse(bytes, format) {
            Ok(Content::Coefficients(coefficients)) => solver(args, facts, released(&coefficients)?),
            Ok(Content::Network(file)) => network(args, facts, &file),
            Ok(Content::Tensors(file)) => {
                facts["values"] = json!(file.values);
                facts["globals"] = json!(file.globals);
                add_inception(&mut facts, path, &file.tensors.iter().cloned().collect());
                facts["tensors"] = file.tensors.iter().map(|(name, t)| tensor_facts(name, t)).collect();
                with_model(args, facts, |facts| {
                    list("mentions", &facts["globals"]);
                    tensor_table(facts);
                })
            }
            Err(problem) => Err(named(problem)),
        },
        other => Err(unknown_format(path, other)),
    }
}

/// Says of a model that is in the program, and of no file, where it is described.
fn refuse_built_in(path: &Path) -> Result<()> {
    let name = text(path);
    let published = |given: &str| PUBLISHED.iter().any(|(name, _)| *name == given);
    let is_random = name.strip_prefix("random:").is_some_and(published);
    if path.exists() || !is_random && !BUILT_IN.iter().any(|(built_in, _)| *built_in == name) {
        return Ok(());
    }
    Err(Error::conflict(
        format!("'{name}' is built in: there is no file to look into"),
        "'dyweight list models' says what it is",
    ))
}

/// A model that is more than one file, or none.
fn model(args: &InspectArgs) -> Result<()> {
    refuse_solvers_options(args)?;
    let unknown = || {
        let known = RANDOM.iter().map(|(name, _)| format!("random:{name}"));
        Error::unknown_name("latent diffusion model", text(&args.file), known)
    };
    let summary = inspect_latent::summary(args)?.ok_or_else(unknown)?;
    let format = if args.file.is_dir() { "a folder" } else { "random weights" };
    let facts = json!({
        "file": text(&args.file), "bytes": summary.memory.weights, "format": format, "model": inspect_latent::facts(&summary),
    });
    show(args, facts, |_| inspect_latent::show(&summary))
}

/// Shows tensors, and what model they are if they are one.
fn with_model(args: &InspectArgs, mut facts: Value, body: impl FnOnce(&Value)) -> Result<()> {
    refuse_solvers_options(args)?;
    let summary = match inspect_latent::summary(args) {
        Ok(summary) => summary,
        Err(problem) => {
            facts["unsupported"] = json!(problem.to_string());
            None
        }
    };
    if let Some(summary) = &summary {
        facts["model"] = inspect_latent::facts(summary);
    }
    show(args, facts, |facts| {
        body(facts);
        summary.iter().for_each(inspect_latent::show);
    })
}

/// What a pickle or torch file turns out to hold.
pub enum Content {
    /// Released solver coefficients.
    Coefficients(Box<OfficialCoefficients>),
    /// A network with its configuration.
    Network(Box<NetworkFile>),
    /// Tensors alone.
    Tensors(TorchFile),
}

/// The tensor that released coefficients in torch files have.
const COEFFICIENTS: &str = "dyweight_weights_raw";

impl Content {
    /// Tells them apart by what they hold.
    pub fn parse(bytes: SharedBytes, format: Format) -> Result<Self, Malformed> {
        match Self::parse_known(bytes.clone(), format) {
            // A pickle of another make is named only if it holds a network that can be used.
            Err(problem) if format == Format::Pickle => match TorchFile::parse_pickle(bytes) {
                Ok(file) if is_inception(&file) => Ok(Content::Tensors(file)),
                _ => Err(problem),
            },
            known => known,
        }
    }

    fn parse_known(bytes: SharedBytes, format: Format) -> Result<Self, Malformed> {
        let coefficients =
            |bytes: SharedBytes| OfficialCoefficients::parse(bytes).map(|c| Content::Coefficients(Box::new(c)));
        if format == Format::Pickle {
            let missing =
                |problem: &Malformed, wanted: &str| matches!(problem, Malformed::Missing { name } if name == wanted);
            return match NetworkFile::parse(bytes.clone()) {
                Ok(file) => Ok(Content::Network(Box::new(file))),
                Err(problem) if missing(&problem, "ema") => coefficients(bytes).map_err(|problem| {
                    let neither = "holds neither a network ('ema') nor coefficients ('predictor')";
                    let unknown = Malformed::Inconsistent { problem: neither.into() };
                    if missing(&problem, "predictor") { unknown } else { problem }
                }),
                Err(problem) => Err(problem),
            };
        }
        let file = TorchFile::parse(bytes.clone())?;
        if file.tensors.iter().any(|(name, _)| name == COEFFICIENTS) {
            return coefficients(bytes);
        }
        Ok(Content::Tensors(file))
    }
}

/// True if the tensors are those of the feature network.
pub fn is_inception(file: &TorchFile) -> bool {
    InceptionFile::recognises(file.tensors.iter().map(|(name, _)| name.as_str()))
}

/// Says so if the tensors are those of the feature network, or what keeps them from being it.
fn add_inception(facts: &mut Value, path: &Path, tensors: &BTreeMap<String, StoredTensor>) {
    if InceptionFile::recognises(tensors.keys().map(String::as_str)) {
        match InceptionFile::from_tensors(path, tensors) {
            Ok(file) => facts["network"] = json!({ "kind": file.kind, "features": 2048, "sha256": file.sha256() }),
            Err(problem) => facts["unsupported"] = json!(problem.to_string()),
        }
    }
}

fn unknown_format(path: &Path, format: Format) -> Error {
    let expected = "a solver file, a coefficient file or a checkpoint";
    Error::malformed(path, Malformed::Format { expected, found: format.describe() })
}

fn tensor_facts(name: &str, tensor: &StoredTensor) -> Value {
    json!({ "name": name, "dtype": tensor.dtype().name(), "shape": tensor.shape() })
}

fn show(args: &InspectArgs, facts: Value, body: impl FnOnce(&Value)) -> Result<()> {
    if args.json {
        ui::print_json(&facts);
        return Ok(());
    }
    let text = |key: &str| facts[key].as_str().unwrap_or_default().to_string();
    ui::print(&format!("{}: {}, {} bytes", text("file"), text("format"), facts["bytes"]));
    body(&facts);
    Ok(())
}

/// How many weights the configuration describes, or why it cannot be run.
fn add_architecture(facts: &mut Value, config: &Map<String, Value>) {
    match parameters(config) {
        Ok(parameters) => facts["parameters"] = json!(parameters),
        Err(problem) => facts["unsupported"] = json!(problem.to_string()),
    }
}

fn network(args: &InspectArgs, mut facts: Value, file: &NetworkFile) -> Result<()> {
    refuse_solvers_options(args)?;
    let config = file.config();
    facts["class"] = json!(file.class);
    facts["model_class"] = json!(file.model_class);
    facts["options"] = json!(config);
    add_architecture(&mut facts, &config);
    facts["globals"] = json!(file.globals);
    let source = |s: &dyweight::files::EmbeddedSource| json!({ "class": s.class, "bytes": s.len, "sha256": s.sha256 });
    facts["sources"] = file.sources.iter().map(source).collect();
    facts["tensors"] = file.tensors.iter().map(|(name, t)| tensor_facts(name, t)).collect();
    show(args, facts, |facts| {
        let class = facts["class"].as_str().unwrap_or_default();
        ui::print(&format!("{class} around {}", facts["model_class"].as_str().unwrap_or("nothing known")));
        for (key, value) in facts["options"].as_object().into_iter().flatten() {
            ui::print(&format!("  {key}: {value}"));
        }
        list("mentions", &facts["globals"]);
        for source in facts["sources"].as_array().into_iter().flatten() {
            let (class, sha256) = (source["class"].as_str(), source["sha256"].as_str().unwrap_or_default());
            let class = class.unwrap_or_default();
            ui::print(&format!("  source text with {class}: {} bytes, sha256 {sha256}, never run", source["bytes"]));
        }
        tensor_table(facts);
    })
}

/// An error for guidance that is asked of a solver with one of its own.
pub fn refuse_guidance(file: &SolverFile, asked: Option<f64>) -> Result<()> {
    match asked.filter(|asked| file.served().is_none() && file.guidance != Some(*asked)) {
        Some(_) => Err(Error::no_effect("guidance", "the file serves no range of it")),
        None => Ok(()),
    }
}

/// An error for the options of solver files where there is none.
fn refuse_solvers_options(args: &InspectArgs) -> Result<()> {
    option::refuse(&[("nfe", args.nfe.is_some())], |option| Error::no_effect(option, "this is no solver"))
}

fn list(what: &str, values: &Value) {
    let texts: Vec<&str> = values.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !texts.is_empty() {
        ui::print(&format!("  {what}: {}", texts.join(", ")));
    }
}

fn tensor_table(facts: &Value) {
    if let (Some(kind), Some(sha256)) = (facts["network"]["kind"].as_str(), facts["network"]["sha256"].as_str()) {
        ui::print(&format!("{kind}: 2048 features of images, sha256 of the weights {sha256}"));
    }
    if let Some(metadata) = facts["metadata"].as_object() {
        metadata.iter().for_each(|(k, v)| ui::print(&format!("  {k}: {}", v.as_str().unwrap_or_default())));
    }
    let mut rows = vec![["tensor", "dtype", "shape"].map(String::from).to_vec()];
    let mut entries = 0u64;
    for tensor in facts["tensors"].as_array().into_iter().flatten() {
        let shape: Vec<u64> = tensor["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        entries += shape.iter().product::<u64>();
        let text = |key: &str| tensor[key].as_str().unwrap_or_default().to_string();
        rows.push(vec![text("name"), text("dtype"), format!("{shape:?}")]);
    }
    ui::table(&rows);
    let parameters =
        facts["parameters"].as_u64().map_or(String::new(), |p| format!(", {p} of them trained parameters"));
    ui::print(&format!("{} tensors, {entries} numbers{parameters}", rows.len() - 1));
    if let Some(problem) = facts["unsupported"].as_str() {
        ui::warn(&format!("this network cannot be run: {problem}"));
    }
}

fn solver(args: &InspectArgs, mut facts: Value, file: SolverFile) -> Result<()> {
    let InspectArgs { config, precision, height, width, tokenizer, .. } = args;
    let given = [
        ("model-config", config.is_some()),
        ("precision", precision.is_some()),
        ("height", height.is_some()),
        ("width", width.is_some()),
        ("tokenizer", tokenizer.is_some()),
    ];
    option::refuse(&given, |option| Error::no_effect(option, "this is a solver, no model"))?;
    refuse_guidance(&file, args.guidance)?;
    let file = match args.nfe {
        Some(nfe) => file.at(&shown(&args.file), Asked { guidance: args.guidance, ..Asked::nfe(nfe) })?,
        None => file,
    };
    facts["solver"] = json!(file);
    facts["warnings"] = json!(file.warnings());
    show(args, facts, |_| super::solver_table::print(&file))
}
