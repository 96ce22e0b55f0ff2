//! What is kept of a run, and where it goes: image files, tensors, pictures.

use super::noise::Noise;
use super::setup::Setup;
use super::{SampleArgs, Sink, draw};
use dyweight::checkpoint::{Lock, StoredTensor, TensorFile, atomic};
use dyweight::image::{Image, contact_sheet, is_image};
use dyweight::spec::LoadedModel;
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Samples that can be drawn as points.
const PLANE: [usize; 3] = [2, 1, 1];
/// States are kept in memory until they are written.
const MOST_TRAJECTORY_NUMBERS: usize = 1 << 29;
/// A contact sheet shows no more.
const MOST_ON_A_SHEET: usize = 1024;

/// The output of a run.
pub struct Output<'o> {
    noise: &'o Noise,
    _lock: Option<Lock>,
    outdir: Option<PathBuf>,
    trajectory: Option<PathBuf>,
    shape: [usize; 3],
    /// All states, `[states, n, …]`, while anyone wants them.
    states: Vec<f64>,
    /// All samples, unless they are written one by one as images.
    samples: Vec<f64>,
    /// The contact sheet in the making.
    sheet: Option<Vec<Option<Image>>>,
}

impl<'o> Output<'o> {
    /// Refuses what could not be written before anything is computed.
    pub fn open(args: &SampleArgs, model: &LoadedModel, noise: &'o Noise, setup: &Setup<'_>) -> Result<Self> {
        let shape = model.model.shape();
        let numbers = noise.len() * shape.iter().product::<usize>();
        let keeps_states = args.trajectory.is_some() || (args.outdir.is_some() && shape == PLANE);
        let all_states = if keeps_states { numbers.saturating_mul(setup.states()) } else { 0 };
        if all_states > MOST_TRAJECTORY_NUMBERS {
            let expected = format!("{all_states} numbers are more than {MOST_TRAJECTORY_NUMBERS}: use fewer seeds");
            return Err(Error::BadValue { name: "trajectory", value: format!("{} samples", noise.len()), expected });
        }
        if args.grid && !is_image(shape) {
            return Err(Error::Conflict {
                problem: format!("samples of shape {shape:?} are not images"),
                hint: "leave --grid out".into(),
            });
        }
        if let Some(path) = &args.trajectory {
            atomic::write(path, b"")?;
            std::fs::remove_file(path).map_err(|e| Error::io("write", path, e))?;
        }
        let outdir = args.outdir.clone().or(args.grid.then(|| PathBuf::from("samples")));
        let mut lock = None;
        if let Some(dir) = &outdir {
            std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
            lock = Some(Lock::directory(dir)?);
            claim(dir, args, (model, setup, noise))?;
        }
        let keeps_samples = outdir.is_some() && !is_image(shape);
        Ok(Self {
            noise,
            _lock: lock,
            outdir,
            trajectory: args.trajectory.clone(),
            shape,
            states: vec![0.0; all_states],
            samples: vec![0.0; if keeps_samples { numbers } else { 0 }],
            sheet: args.grid.then(|| vec![None; noise.len().min(MOST_ON_A_SHEET)]),
        })
    }

    /// Samples still to be made: all but those whose image is already there and sound.
    pub fn missing(&mut self) -> Vec<usize> {
        (0..self.noise.len()).filter(|i| !self.has(*i)).collect()
    }

    fn has(&mut self, index: usize) -> bool {
        if self.keeps_states() {
            return false;
        }
        let Some(path) = self.image_path(index) else { return false };
        let [c, h, w] = self.shape;
        let found = Image::read(&path).ok().filter(|i| (i.channels(), i.height(), i.width()) == (c, h, w));
        let there = found.is_some();
        self.put_on_sheet(index, found);
        there
    }

    fn put_on_sheet(&mut self, index: usize, image: Option<Image>) {
        if let Some(place) = self.sheet.as_mut().and_then(|s| s.get_mut(index)) {
            *place = image;
        }
    }

    /// `NNN000/NNNNNN.png`, the field's layout.
    fn image_path(&self, index: usize) -> Option<PathBuf> {
        let seed = self.noise.name(index);
        let dir = self.outdir.as_ref().filter(|_| is_image(self.shape))?;
        Some(dir.join(format!("{:06}", seed - seed % 1000)).join(format!("{seed:06}.png")))
    }

    /// True if all states are wanted, not the samples alone.
    pub fn keeps_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Writes what was asked for; returns the files worth naming.
    pub fn finish(self, model: &LoadedModel, setup: &Setup<'_>) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let [c, h, w] = self.shape;
        let facts = [("nfe", setup.nfe.to_string()), ("solver", setup.solver.label()), ("model", model.name.clone())];
        let metadata = facts.map(|(k, v)| (k.to_string(), v));
        if let Some(path) = &self.trajectory {
            let mut file = TensorFile { metadata: metadata.clone().into(), ..TensorFile::default() };
            insert(&mut file, path, "trajectory", &[setup.states(), self.noise.len(), c, h, w], &self.states)?;
            insert(&mut file, path, "sigmas", &[setup.grid.sigmas().len()], setup.grid.sigmas())?;
            file.write(path)?;
            files.push(path.clone());
        }
        let Some(dir) = &self.outdir else { return Ok(files) };
        if !self.samples.is_empty() {
            let path = dir.join("samples.safetensors");
            let mut file = TensorFile { metadata: metadata.into(), ..TensorFile::default() };
            insert(&mut file, &path, "samples", &[self.noise.len(), c, h, w], &self.samples)?;
            file.write(&path)?;
            files.push(path);
        }
        if self.shape == PLANE {
            files.extend(draw::plane(dir, model, setup, &self.states, self.noise.len())?);
        }
        if let Some(sheet) = self.sheet {
            let images: Vec<Image> = sheet.into_iter().flatten().collect();
            let columns = (images.len() as f64).sqrt().ceil() as usize;
            let path = dir.join("grid.png");
            atomic::write(&path, &contact_sheet(&images, columns, 2)?.to_png())?;
            files.push(path);
        }
        if is_image(self.shape) {
            files.push(dir.clone());
        }
        Ok(files)
    }

    /// An error if an image is gone that was written or found: someone else removed it meanwhile.
    pub fn require_images(&self) -> Result<()> {
        let paths = (0..self.noise.len()).filter_map(|i| self.image_path(i));
        match paths.into_iter().find(|path| !path.is_file()) {
            None => Ok(()),
            Some(path) => {
                let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "removed by someone else during the run");
                Err(Error::io("find", &path, gone))
            }
        }
    }
}

impl Sink for Output<'_> {
    /// Images are written at once.
    fn take(&mut self, indices: &[usize], states: &[Tensor]) -> Result<()> {
        let Some((samples, states)) = states.split_last() else { return Ok(()) };
        let len = samples.sample_len();
        for (number, state) in states.iter().enumerate() {
            for (row, index) in indices.iter().enumerate() {
                let at = (number * self.noise.len() + index) * len;
                self.states[at..at + len].copy_from_slice(state.sample(row));
            }
        }
        for (row, index) in indices.iter().enumerate() {
            if let Some(path) = self.image_path(*index) {
                let image = Image::from_sample(samples.sample(row), self.shape)?;
                if let Some(dir) = path.parent() {
                    std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
                }
                atomic::write_unsynced(&path, &image.to_png())?;
                self.put_on_sheet(*index, Some(image));
            } else if !self.samples.is_empty() {
                self.samples[index * len..(index + 1) * len].copy_from_slice(samples.sample(row));
            }
        }
        Ok(())
    }
}

/// A directory holds the samples of one setting: other settings are refused, the same ones are continued.
fn claim(dir: &Path, args: &SampleArgs, (model, setup, noise): (&LoadedModel, &Setup<'_>, &Noise)) -> Result<()> {
    let path = dir.join("run.json");
    let facts = json!({
        "model": model.name, "sha256": model.sha256, "solver": setup.solver.label(), "options": args.draw.solver.given(),
        "coefficients": setup.coefficients, "sigmas": setup.grid.sigmas(), "afs": setup.afs, "denoise_to_zero": setup.denoise_to_zero,
        "class": args.draw.class, "guidance": args.draw.guidance, "rng": args.draw.rng, "latents": noise.fingerprint(), "conv": args.model.conv,
    });
    let text = format!("{facts:#}\n");
    match std::fs::read_to_string(&path) {
        Ok(found) if found == text => Ok(()),
        Ok(_) if args.overwrite => {
            remove_images(dir)?;
            atomic::write(&path, text.as_bytes())
        }
        Ok(_) => Err(Error::Conflict {
            problem: format!("{} holds samples made with other settings (see run.json there)", dir.display()),
            hint: "choose another --outdir, or --overwrite".into(),
        }),
        Err(_) => atomic::write(&path, text.as_bytes()),
    }
}

/// Removes the image folders of a directory, `NNN000`: images of other settings must not pass for finished ones.
fn remove_images(dir: &Path) -> Result<()> {
    let failed = |e| Error::io("remove", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() && name.len() >= 6 && name.ends_with("000") && name.bytes().all(|b| b.is_ascii_digit()) {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
    }
    Ok(())
}

fn insert(file: &mut TensorFile, path: &Path, name: &str, shape: &[usize], values: &[f64]) -> Result<()> {
    let tensor = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(path, p))?;
    file.tensors.insert(name.into(), tensor);
    Ok(())
}
