//! Networks in pickles of the `torch_utils.persistence` scheme (EDM and its relatives).
//!
//! ```text
//! {"ema": object, …}
//! object        _reconstruct_persistent_obj({class_name, module_src, state: attributes})
//! attributes    _parameters, _buffers, _modules (name → value), plain values, _init_kwargs
//! ```
//!
//! Options come from the wrapper's `_init_kwargs` (as it was constructed) and its plain attributes (as resolved); the
//! embedded source text is measured and fingerprinted, never read.

use super::allowance::Allowance;
use super::bytes::SharedBytes;
use super::fingerprint::Fingerprint;
use super::pickle::{self, Graph, Id, Meaning, Node};
use super::sniff::{Format, expect};
use super::stored::StoredTensor;
use super::torch::storage::Externals;
use super::torch::tensor::TensorReader;
use super::torch::walk;
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Length of a class name.
const MAX_CLASS: usize = 256;

/// A network as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkFile {
    /// Class of the wrapper: `EDMPrecond`, `VPPrecond`, …
    pub class: String,
    /// Keyword arguments the wrapper was constructed with; empty if the file does not say.
    pub init_kwargs: Map<String, Value>,
    /// Class of the network inside the wrapper: `SongUNet`, `DhariwalUNet`, …
    pub model_class: Option<String>,
    /// Keyword arguments the network inside was constructed with.
    pub model_kwargs: Map<String, Value>,
    /// The wrapper's plain attributes, with defaults resolved; infinities are the texts `"inf"` and `"-inf"`.
    pub attributes: Map<String, Value>,
    /// Tensors by dot-joined names (`model.enc.16x16_conv.weight`), in file order.
    pub tensors: Vec<(String, StoredTensor)>,
    /// Names the pickle mentions.
    pub globals: Vec<String>,
    /// Source texts the file carries, none of which is ever run.
    pub sources: Vec<EmbeddedSource>,
}

/// A source text embedded in a pickle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedSource {
    /// A class it comes with.
    pub class: String,
    /// Length in bytes.
    pub len: usize,
    /// SHA-256, as hexadecimal text.
    pub sha256: String,
}

impl NetworkFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = super::read_data(path)?;
        Self::parse(bytes).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of a pickle; the tensors share them.
    pub fn parse(file: SharedBytes) -> Result<Self, Malformed> {
        expect(&file, "a pickle of a network", &[Format::Pickle])?;
        let graph = pickle::parse_all(&file)?;
        if graph.as_dict(graph.root()).is_none() {
            return Err(graph.wrong("pickle", "a dictionary", graph.root()));
        }
        let ema = graph.need(graph.root(), "ema")?;
        let wrapper = Object::read(&graph, "ema", ema)?;
        let inner = graph.get(wrapper.state, "_modules").and_then(|modules| graph.get(modules, "model"));
        let inner = inner.map(|id| Object::read(&graph, "model", id)).transpose()?;
        let reader = TensorReader::new(&graph, &file, Externals::Inside, file.len());
        Ok(Self {
            class: wrapper.class.into(),
            init_kwargs: wrapper.init_kwargs(&graph, &file)?,
            model_class: inner.as_ref().map(|o| o.class.into()),
            model_kwargs: inner.map(|o| o.init_kwargs(&graph, &file)).transpose()?.unwrap_or_default(),
            attributes: wrapper.plain_attributes(&graph, &file)?,
            tensors: walk::collect(reader, ema)?,
            globals: graph.global_names(),
            sources: sources(&graph)?,
        })
    }

    /// Everything needed to build the network again, as one object: `cls`, then the arguments as given, then what
    /// the file says beyond them. Infinite values are left out: they are the defaults.
    pub fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        config.insert("cls".into(), self.class.clone().into());
        config.extend(self.init_kwargs.clone());
        if let Some(model) = &self.model_class {
            config.entry("model_type").or_insert_with(|| model.clone().into());
        }
        let infinite = |value: &Value| matches!(value.as_str(), Some("inf" | "-inf" | "nan"));
        // Without the wrapper's arguments the inner network's are the only source of the architecture.
        let inner = if self.init_kwargs.is_empty() { Some(&self.model_kwargs) } else { None };
        for (key, value) in self.attributes.iter().chain(inner.into_iter().flatten()) {
            if !infinite(value) {
                config.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        config
    }
}

/// A persistent object.
pub(super) struct Object<'a> {
    pub(super) class: &'a str,
    pub(super) state: Id,
}

impl<'a> Object<'a> {
    pub(super) fn read(graph: &Graph<'a>, name: &str, id: Id) -> Result<Self, Malformed> {
        let wrong = || graph.wrong(name, "a persistent object", id);
        let Some((Meaning::Persistent, args, _)) = graph.as_made(id) else { return Err(wrong()) };
        let description = *graph.as_items(args).and_then(<[Id]>::first).ok_or_else(wrong)?;
        let class = graph.need(description, "class_name")?;
        let class = graph.as_text(class).ok_or_else(|| graph.wrong("class_name", "a text", class))?;
        let state = graph.need(description, "state")?;
        match graph.as_dict(state) {
            Some(_) => Ok(Self { class, state }),
            None => Err(graph.wrong("state", "a dictionary", state)),
        }
    }

    fn init_kwargs(&self, graph: &Graph<'_>, buffer: &[u8]) -> Result<Map<String, Value>, Malformed> {
        match graph.get(self.state, "_init_kwargs").filter(|id| graph.as_dict(*id).is_some()) {
            Some(kwargs) => pickle::fields(graph, kwargs, buffer),
            None => Ok(Map::new()),
        }
    }

    /// Numbers, texts and lists among the attributes; those with an underscore belong to the framework.
    fn plain_attributes(&self, graph: &Graph<'_>, buffer: &[u8]) -> Result<Map<String, Value>, Malformed> {
        let mut plain = pickle::fields(graph, self.state, buffer)?;
        plain.retain(|key, value| !key.starts_with('_') && key != "training" && !value.is_object());
        Ok(plain)
    }
}

/// All distinct pairs of class and source text; each text is hashed once.
fn sources(graph: &Graph<'_>) -> Result<Vec<EmbeddedSource>, Malformed> {
    let mut hashes: HashMap<Id, String> = HashMap::new();
    let mut seen = HashSet::new();
    let mut sources = Vec::new();
    let mut visits = Allowance::visits();
    for node in graph.nodes() {
        let Node::Made { global, args, .. } = node else { continue };
        let description = graph.as_items(*args).and_then(<[Id]>::first);
        let Some(description) = description.filter(|_| graph.global(*global).meaning == Meaning::Persistent) else {
            continue;
        };
        visits.spend(graph.as_dict(*description).map_or(0, <[_]>::len))?;
        let text = |key| graph.get(*description, key).and_then(|id| Some((id, graph.as_text(id)?)));
        let (Some((_, class)), Some((id, source))) = (text("class_name"), text("module_src")) else { continue };
        // Names are copied out below, and one long name may stand for many objects.
        if class.len() > MAX_CLASS {
            let (size, limit) = (class.len() as u64, MAX_CLASS as u64);
            return Err(Malformed::TooLarge { what: "length of a class name", size, limit });
        }
        let sha256 = hashes.entry(id).or_insert_with(|| Fingerprint::default().add(source.as_ref()).text()).clone();
        if seen.insert((class, sha256.clone())) {
            sources.push(EmbeddedSource { class: class.into(), len: source.len(), sha256 });
        }
    }
    Ok(sources)
}
