//! What the teacher makes of the pairs: computed once, kept in memory and, if wanted, on disk.
//!
//! Pair i's target depends on the model, the teacher, the grid, the seed and i alone, so it can be reused across
//! budgets and runs. Pairs are computed in chunks; a chunk is one file, written all or nothing, under a directory named
//! after the hash of everything the targets depend on. Of several processes each computes a share, and rank 0 alone
//! writes.

use crate::Supervision;
use dyweight_core::denoiser::{Differentiable, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_files::{Fingerprint, SharedBytes, StoredTensor, TensorFile, read_file};
use dyweight_sample::comm::{Comm, Solo};
use dyweight_sample::{Inputs, Noise, Sampler, Stop, in_parts, interruptible, stacked, unit};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Pairs computed and stored together.
pub(crate) const CHUNK: usize = 16;
/// Numbers kept in memory; beyond it the oldest chunks are computed or read again.
pub(crate) const MOST_NUMBERS: usize = 64 << 20;

/// A solver with many steps.
pub struct Teacher {
    /// The method on its grid.
    pub sampler: Sampler,
    /// A text that changes whenever its results would: part of the cache's key.
    pub identity: String,
}

/// The targets of a list of pairs.
pub struct Targets {
    model: Arc<dyn Model>,
    pairs: Inputs,
    teacher: Arc<Teacher>,
    supervision: Supervision,
    /// Samples per network call.
    batch: usize,
    directory: Option<PathBuf>,
    comm: Arc<dyn Comm>,
    stop: Option<Stop>,
    memory: Mutex<BTreeMap<usize, Vec<Tensor>>>,
}

impl Targets {
    /// Targets of `pairs` by `teacher`, computed `batch` at a time.
    pub fn new(
        model: Arc<dyn Model>,
        pairs: Inputs,
        teacher: impl Into<Arc<Teacher>>,
        supervision: Supervision,
        batch: usize,
    ) -> Self {
        let (teacher, comm) = (teacher.into(), Arc::new(Solo));
        Self { model, pairs, teacher, supervision, batch, directory: None, comm, stop: None, memory: Mutex::default() }
    }

    /// Shares the work with other processes, which have the same targets.
    pub fn shared_by(mut self, comm: Arc<dyn Comm>) -> Self {
        self.comm = comm;
        self
    }

    /// Gives up with [`Error::Cancelled`] once this is so, if no other processes share the work.
    pub fn stopped_by(mut self, stop: Option<Stop>) -> Self {
        self.stop = stop;
        self
    }

    /// A model asked for what some pairs are, which gives up between two calls once whoever waits has asked to stop.
    pub(crate) fn denoiser<'m>(
        &'m self,
        model: &'m dyn Model,
        pairs: Range<usize>,
    ) -> Result<impl Differentiable + 'm> {
        let (inner, stop) = (model.denoiser(&self.pairs.condition(pairs))?, self.stop.as_ref());
        // Of several processes none asks, because all must go on alike.
        Ok(interruptible(inner, stop.filter(|_| self.comm.size() == 1)))
    }

    /// The processes that share the work.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// Keeps targets under `directory` too, in a folder of this model's, teacher's and pairs' own.
    pub fn cached_in(mut self, directory: PathBuf, model_sha256: &str) -> Result<Self> {
        let folder = directory.join(&self.key(model_sha256)[..24]);
        if self.comm.is_root() {
            std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        }
        self.directory = Some(folder);
        Ok(self)
    }

    /// The pairs.
    pub fn pairs(&self) -> &Inputs {
        &self.pairs
    }

    /// Another for every list of other targets.
    pub(crate) fn key(&self, model_sha256: &str) -> String {
        let (pairs, teacher) = (&self.pairs, &self.teacher);
        let mut hash = Fingerprint::default();
        hash.add(
            format!("targets 4|{model_sha256}|{}|{}", teacher.identity, teacher.sampler.denoise_to_zero).as_bytes(),
        );
        hash.add_numbers(teacher.sampler.grid.sigmas());
        let condition = (pairs.shape, pairs.classes, pairs.show.identity(), pairs.guidance);
        hash.add(format!("{:?}|{condition:?}", self.supervision).as_bytes());
        match &pairs.noise {
            Noise::Stream { seed, purpose } => hash.add(format!("{seed} {purpose}").as_bytes()),
            Noise::Given(noise) | Noise::Latents(noise) => hash.add_numbers(noise.data()),
            Noise::Seeds { seeds, rng } => hash.add(format!("{rng:?} {seeds:?}").as_bytes()),
        };
        hash.text()
    }

    /// Has the targets of pairs `range` computed, by all processes together, before they are asked for. All must call
    /// it.
    pub fn prepare(&self, range: Range<usize>) -> Result<()> {
        if self.comm.size() == 1 {
            return self.of(range).map(drop);
        }
        // Everyone remembers and forgets the same chunks, so everyone misses the same ones.
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let mut missing: Vec<usize> = chunks.filter(|c| !self.lock().contains_key(c)).collect();
        if self.directory.is_some() {
            let stored = || Ok(missing.iter().map(|c| self.read(*c, self.pairs_of(*c, range.end).len())).collect());
            let stored: Vec<Option<Vec<Tensor>>> = self.comm.broadcast(stored)?;
            let found = missing.iter().zip(&stored).filter_map(|(c, states)| Some((c, states.as_ref()?)));
            found.for_each(|(chunk, states)| self.remember(*chunk, states));
            missing.retain(|c| !self.lock().contains_key(c));
        }
        let pairs: Vec<usize> = missing.iter().flat_map(|c| self.pairs_of(*c, range.end)).collect();
        let runs = |mine: Range<usize>| {
            // As in one process, chunk by chunk.
            let one_run = |a: &usize, b: &usize| a + 1 == *b && a / CHUNK == b / CHUNK;
            let runs = pairs[mine].chunk_by(one_run).map(|run| run[0]..run[run.len() - 1] + 1);
            stacked(&runs.map(|run| self.compute(run)).collect::<Result<Vec<_>>>()?)
        };
        // A call never spans two chunks, so a chunk that is no whole number of calls is not divided.
        let batch = if CHUNK.is_multiple_of(self.batch) { self.batch } else { CHUNK };
        let mut parts = self.comm.scatter_gather(0..pairs.len(), unit(&*self.model, batch), runs)?;
        parts.retain(|states| !states.is_empty());
        let states = stacked(&parts)?;
        let mut first = 0;
        for chunk in missing {
            let last = first + self.pairs_of(chunk, range.end).len();
            let states: Vec<Tensor> = states.iter().map(|s| s.slice(first..last)).collect();
            if self.comm.is_root() {
                self.write(chunk, &states)?;
            }
            self.remember(chunk, &states);
            first = last;
        }
        Ok(())
    }

    /// The supervised states of pairs `range`, the endpoint last.
    pub fn of(&self, range: Range<usize>) -> Result<Vec<Tensor>> {
        let mut parts: Vec<Vec<Tensor>> = Vec::new();
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            let states = self.chunk(chunk, range.end)?;
            let first = chunk * CHUNK;
            let inside = range.start.max(first) - first..range.end.min(first + CHUNK) - first;
            parts.push(states.iter().map(|s| s.slice(inside.clone())).collect());
        }
        stacked(&parts)
    }

    /// The pairs of a whole chunk, or as many of them as given noise allows but at least up to pair `end`.
    fn pairs_of(&self, chunk: usize, end: usize) -> Range<usize> {
        let first = chunk * CHUNK;
        let last = match self.pairs.noise.count() {
            Some(given) => (first + CHUNK).min(given.max(end.min(first + CHUNK))),
            None => first + CHUNK,
        };
        first..last
    }

    fn chunk(&self, chunk: usize, end: usize) -> Result<Vec<Tensor>> {
        if let Some(states) = self.lock().get(&chunk) {
            return Ok(states.clone());
        }
        let pairs = self.pairs_of(chunk, end);
        let states = match self.read(chunk, pairs.len()) {
            Some(states) => states,
            None => {
                let states = self.compute(pairs)?;
                if self.comm.is_root() {
                    self.write(chunk, &states)?;
                }
                states
            }
        };
        // Of several processes all must remember the same, whatever each was asked for: see `prepare`.
        if self.comm.size() == 1 {
            self.remember(chunk, &states);
        }
        Ok(states)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Vec<Tensor>>> {
        // A panic elsewhere cannot leave a half-made chunk here: chunks are inserted whole.
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn remember(&self, chunk: usize, states: &[Tensor]) {
        let params: usize = states.iter().map(|s| s.data().len()).sum();
        let mut memory = self.lock();
        while !memory.is_empty() && (memory.len() + 1) * params > MOST_NUMBERS {
            memory.pop_first();
        }
        memory.insert(chunk, states.to_vec());
    }

    fn compute(&self, range: Range<usize>) -> Result<Vec<Tensor>> {
        stacked(&in_parts(&*self.model, range, self.batch, |part| self.run(part))?)
    }

    fn run(&self, range: Range<usize>) -> Result<Vec<Tensor>> {
        let noise = self.pairs.latents(range.clone())?;
        let denoiser = self.denoiser(&*self.model, range)?;
        let (teacher, mut states) = (&self.teacher.sampler, Vec::new());
        let steps = teacher.grid.steps();
        let outcome = teacher.sample(&denoiser, &noise, &mut |state| {
            if let Some(stride) = self.supervision.stride()
                && state.index > 0
                && state.index < steps
                && state.index % stride == 0
            {
                states.push(state.x.tensor().clone());
            }
            Ok(())
        })?;
        states.push(outcome.samples);
        Ok(states)
    }

    fn file(&self, chunk: usize) -> Option<PathBuf> {
        self.directory.as_ref().map(|d| d.join(format!("pairs-{:08}.safetensors", chunk * CHUNK)))
    }

    /// A stored chunk; none if it is missing, damaged or of another size: it is then made anew.
    fn read(&self, chunk: usize, pairs: usize) -> Option<Vec<Tensor>> {
        let [c, h, w] = self.pairs.shape;
        let states = parse_states(read_file(&self.file(chunk)?, u64::MAX).ok()?, [pairs, c, h, w])?;
        (states.len() == self.states()).then_some(states)
    }

    /// How many states of the teacher are supervised.
    fn states(&self) -> usize {
        // Every stride-th state before the end, and the end.
        self.supervision.stride().map_or(1, |stride| self.teacher.sampler.grid.steps().saturating_sub(1) / stride + 1)
    }

    fn write(&self, chunk: usize, states: &[Tensor]) -> Result<()> {
        let Some(path) = self.file(chunk) else { return Ok(()) };
        let mut file = TensorFile::default();
        for (k, state) in states.iter().enumerate() {
            let stored =
                StoredTensor::from_f64(&state.shape(), state.data()).map_err(|p| Error::malformed(&path, p))?;
            file.tensors.insert(format!("state{k:04}"), stored);
        }
        let sha256 = digest(file.tensors.values().map(|t| t.bytes()));
        file.metadata.insert("sha256".into(), sha256);
        file.write(&path)
    }
}

/// The states in the bytes of a stored chunk; none if they are damaged or not of this shape.
pub fn parse_states(bytes: SharedBytes, shape: [usize; 4]) -> Option<Vec<Tensor>> {
    let file = TensorFile::parse(bytes).ok()?;
    if file.metadata.get("sha256")? != &digest(file.tensors.values().map(StoredTensor::bytes)) {
        return None;
    }
    let batch = |t: &StoredTensor| (t.shape() == shape).then(|| Tensor::new(shape, t.to_f64()).ok()).flatten();
    file.tensors.values().map(batch).collect()
}

fn digest<'b>(parts: impl Iterator<Item = &'b [u8]>) -> String {
    parts.fold(Fingerprint::default(), |mut hash, part| hash.add(part).clone()).text()
}
