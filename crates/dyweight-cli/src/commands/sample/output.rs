//! What is kept of a run, and where it goes: image files, tensors, pictures.

use super::{SampleArgs, Setup, draw};
use crate::ui;
use dyweight::denoiser::Decoder;
use dyweight::error::shown;
use dyweight::files::image::{Image, contact_sheet, is_image};
use dyweight::files::{Lock, OutputGuard, StoredTensor, TensorFile, atomic, read_file};
use dyweight::models::Precision;
use dyweight::report::labelled_sheet;
use dyweight::sample::Show;
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Samples that can be drawn as points.
const PLANE: [usize; 3] = [2, 1, 1];
/// States are kept in memory until they are written.
const MOST_NUMBERS: usize = 1 << 29;
/// A contact sheet shows no more.
const MOST_ON_A_SHEET: usize = 1024;

/// Images smaller than this many pixels are enlarged on a contact sheet, if it does not get larger than that.
const SEEN_WELL: usize = 112;
const LARGEST_SHEET: usize = 4096;
/// How the samples of a directory were made.
const FACTS: &str = "run.json";
/// No description of a run is longer.
const LARGEST_FACTS: u64 = 64 << 20;
/// What a directory of samples may hold beside the images of seeds.
const WRITTEN: [&str; 5] = [FACTS, "samples.safetensors", "samples.svg", "samples.png", "grid.png"];

/// Where samples go if nobody says.
const USUAL: &str = "samples";

/// The directory for samples. If nobody says, it is the first of `samples`, `samples-2`, … that is empty or was begun
/// with these settings, so that nothing is thrown away and nothing lost; with --trajectory alone the states are what is
/// kept.
fn directory(args: &SampleArgs, settings: &str) -> Result<Option<PathBuf>> {
    match (&args.outdir, &args.trajectory) {
        (Some(dir), _) => Ok(Some(dir.clone())),
        (None, Some(_)) if !args.grid => Ok(None),
        _ if args.overwrite => Ok(Some(USUAL.into())),
        _ => {
            let mut names = std::iter::once(USUAL.to_string()).chain((2..).map(|n: usize| format!("{USUAL}-{n}")));
            names.find_map(|name| free(PathBuf::from(name), settings).transpose()).transpose()
        }
    }
}

/// The directory, if it is ours to use.
fn free(dir: PathBuf, settings: &str) -> Result<Option<PathBuf>> {
    let facts = dir.join(FACTS);
    let is_free = if facts.exists() {
        *read_file(&facts, LARGEST_FACTS)? == *settings.as_bytes()
    } else {
        match std::fs::read_dir(&dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        }
    };
    Ok(is_free.then_some(dir))
}

/// Refuses outputs that cannot be written, or that would take the place of an input or of each other: before a model is
/// loaded.
pub fn prepare(args: &SampleArgs) -> Result<()> {
    if let Some(dir) = args.outdir.as_ref().filter(|dir| dir.exists() && !dir.is_dir()) {
        return Err(Error::io("create", dir, std::io::ErrorKind::AlreadyExists.into()));
    }
    check_outputs(args, args.outdir.as_deref())
}

fn check_outputs(args: &SampleArgs, dir: Option<&Path>) -> Result<()> {
    let written: Vec<PathBuf> = dir.iter().flat_map(|dir| WRITTEN.map(|name| dir.join(name))).collect();
    let guard = OutputGuard::new(args.model.files().into_iter().chain(args.draw.files()));
    let guard = written.iter().fold(guard, |guard, path| guard.beside("--out", path));
    let given = [("--trajectory", &args.trajectory), ("--latent-out", &args.latent_out)];
    let given = given.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    given.fold(guard, |guard, (flag, path)| guard.file(flag, path)).check()
}

/// Numbers that are kept until they are written.
struct Kept {
    /// Of states.
    states: usize,
    /// Of samples.
    samples: usize,
    /// Of an image.
    image: [usize; 3],
}

impl Kept {
    /// An error for more states than are kept, and for pictures of what is none.
    fn of(args: &SampleArgs, setup: &Setup, has_folder: bool) -> Result<Self> {
        let (model, count) = (&setup.model.model, setup.samples());
        let shape = model.shape();
        let image = model.decoder().map_or(shape, Decoder::shape);
        let numbers = count.saturating_mul(shape.iter().product());
        let keeps_states = args.trajectory.is_some() || (has_folder && shape == PLANE);
        let states = if keeps_states { numbers.saturating_mul(setup.sampler.states()) } else { 0 };
        if states > MOST_NUMBERS {
            return Err(Error::conflict(
                format!("all states of {count} samples are {states} numbers, more than {MOST_NUMBERS}"),
                "use fewer samples or steps, or write no states (--trajectory, or --out of points)",
            ));
        }
        if args.grid && !is_image(image) {
            return Err(Error::conflict(format!("samples of shape {image:?} are not images"), "leave --grid out"));
        }
        let decoded = model.decoder().is_some();
        let keeps_samples = args.latent_out.is_some() || (has_folder && (decoded || !is_image(image)));
        Ok(Self { states, samples: if keeps_samples { numbers } else { 0 }, image })
    }
}

/// The output of a run.
pub struct Output<'o> {
    setup: &'o Setup,
    _lock: Option<Lock>,
    outdir: Option<PathBuf>,
    trajectory: Option<PathBuf>,
    latent_out: Option<PathBuf>,
    /// Samples that are still to be decoded.
    encoded: Vec<usize>,
    /// Of samples.
    shape: [usize; 3],
    /// Of images: that of samples, unless those are decoded.
    image: [usize; 3],
    /// All states, `[states, n, …]`, while anyone wants them.
    states: Vec<f64>,
    /// All samples, unless they are written one by one as images.
    samples: Vec<f64>,
    /// The contact sheet in the making.
    sheet: Option<Vec<Option<Image>>>,
}

impl<'o> Output<'o> {
    /// Where samples would go.
    pub fn place(args: &SampleArgs, setup: &Setup) -> Result<Option<PathBuf>> {
        directory(args, &settings(args, setup))
    }

    /// Bytes that a run holds beside its calls; an error for more states than are kept.
    pub fn held(args: &SampleArgs, setup: &Setup) -> Result<u64> {
        let settings = settings(args, setup);
        let folder = directory(args, &settings)?;
        check_outputs(args, folder.as_deref())?;
        if let Some(dir) = folder.as_deref().filter(|dir| dir.is_dir()) {
            claimed(dir, args, &settings)?;
        }
        folder.as_deref().map_or(Ok(()), atomic::try_folder)?;
        let kept = Kept::of(args, setup, folder.is_some())?;
        // Numbers of samples and seeds; what is largest is copied when it is written.
        let written = if args.trajectory.is_some() { kept.states } else { kept.samples };
        Ok((16 * setup.samples() + 8 * (kept.states + kept.samples + written)) as u64)
    }

    /// Refuses what could not be written before anything is computed.
    pub fn open(args: &SampleArgs, setup: &'o Setup) -> Result<Self> {
        let (model, count) = (&setup.model, setup.samples());
        let shape = model.model.shape();
        let settings = settings(args, setup);
        let outdir = directory(args, &settings)?;
        check_outputs(args, outdir.as_deref())?;
        let kept = Kept::of(args, setup, outdir.is_some())?;
        let mut lock = None;
        if let Some(dir) = &outdir {
            std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
            lock = Some(Lock::directory(dir)?);
            claim(dir, args, &settings)?;
        }
        Ok(Self {
            setup,
            _lock: lock,
            outdir,
            trajectory: args.trajectory.clone(),
            latent_out: args.latent_out.clone(),
            encoded: Vec::new(),
            shape,
            image: kept.image,
            states: vec![0.0; kept.states],
            samples: vec![0.0; kept.samples],
            sheet: args.grid.then(|| vec![None; count.min(MOST_ON_A_SHEET)]),
        })
    }

    /// Samples still to be made: all but those whose image is already there and sound.
    pub fn missing(&mut self) -> Vec<usize> {
        (0..self.setup.samples()).filter(|i| !self.has(*i)).collect()
    }

    fn has(&mut self, index: usize) -> bool {
        if self.keeps_states() || self.latent_out.is_some() {
            return false;
        }
        let Some(path) = self.image_path(index) else { return false };
        let [c, h, w] = self.image;
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
        let seed = self.setup.inputs.noise.seed(index);
        let dir = self.outdir.as_ref().filter(|_| is_image(self.image))?;
        Some(dir.join(format!("{:06}", seed - seed % 1000)).join(format!("{seed:06}.png")))
    }

    /// True if all states are wanted, not the samples alone.
    pub fn keeps_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Makes images of samples that are not images: a pass of its own, after the samples are safe where that was asked
    /// for.
    pub fn decode(&mut self) -> Result<()> {
        let [c, h, w] = self.shape;
        let len = c * h * w;
        if let Some(path) = &self.latent_out {
            let mut file = TensorFile { metadata: metadata(self.setup), ..TensorFile::default() };
            insert(&mut file, path, "latents", &[self.setup.samples(), c, h, w], &self.samples)?;
            file.write(path)?;
        }
        let model = self.setup.model.model.clone();
        let Some(decoder) = model.decoder() else { return Ok(()) };
        let encoded = std::mem::take(&mut self.encoded);
        let mut progress = ui::Progress::new("decoding", encoded.len());
        for index in encoded {
            ui::go_on()?;
            let sample = self.samples[index * len..(index + 1) * len].to_vec();
            let image = decoder.decode(&Tensor::new([1, c, h, w], sample)?)?;
            // They would be black in a picture, and pass for one.
            if let Some(value) = image.sample(0).iter().copied().find(|value| !value.is_finite()) {
                return Err(Error::DecodingLost { seed: self.setup.inputs.noise.seed(index), value });
            }
            self.write_image(index, image.sample(0), &self.texts(index))?;
            progress.add(1, "");
        }
        progress.finish();
        Ok(())
    }

    /// What a decoded image says of how it was made.
    fn texts(&self, index: usize) -> Vec<(&'static str, String)> {
        let mut texts = vec![("Software", format!("dyweight {}", env!("CARGO_PKG_VERSION")))];
        if let Some(prompts) = self.setup.inputs.show.prompts() {
            texts.push(("prompt", prompts.text(index).into()));
            texts.extend(prompts.negative().map(|negative| ("negative_prompt", negative.to_string())));
        }
        texts.extend(self.setup.inputs.guidance.map(|guidance| ("guidance", guidance.to_string())));
        texts.push(("seed", self.setup.inputs.noise.seed(index).to_string()));
        let mut facts = metadata(self.setup);
        let known = ["solver", "nfe", "model", PRECISION].into_iter();
        texts.extend(known.filter_map(|key| facts.remove(key).map(|value| (key, value))));
        texts
    }

    fn write_image(&mut self, index: usize, sample: &[f64], texts: &[(&'static str, String)]) -> Result<()> {
        let Some(path) = self.image_path(index) else { return Ok(()) };
        let image = Image::from_sample(sample, self.image)?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
        }
        atomic::write_unsynced(&path, &image.to_png_with_texts(texts))?;
        self.put_on_sheet(index, Some(image));
        Ok(())
    }

    /// Writes what was asked for; returns the files worth naming.
    pub fn finish(self) -> Result<Vec<PathBuf>> {
        let (setup, sampler, model) = (self.setup, &self.setup.sampler, &self.setup.model);
        let mut files = Vec::new();
        let [c, h, w] = self.shape;
        let metadata = metadata(setup);
        files.extend(self.latent_out.clone());
        if let Some(path) = &self.trajectory {
            let mut file = TensorFile { metadata: metadata.clone(), ..TensorFile::default() };
            insert(&mut file, path, "trajectory", &[sampler.states(), self.setup.samples(), c, h, w], &self.states)?;
            insert(&mut file, path, "sigmas", &[sampler.steps() + 1], &sampler.sigmas())?;
            file.write(path)?;
            files.push(path.clone());
        }
        let Some(dir) = &self.outdir else { return Ok(files) };
        if !self.samples.is_empty() && model.model.decoder().is_none() {
            let path = dir.join("samples.safetensors");
            let mut file = TensorFile { metadata, ..TensorFile::default() };
            insert(&mut file, &path, "samples", &[self.setup.samples(), c, h, w], &self.samples)?;
            file.write(&path)?;
            files.push(path);
        }
        if self.shape == PLANE {
            files.extend(draw::plane(dir, setup, &self.states)?);
        }
        if let Some(sheet) = self.sheet {
            let path = dir.join("grid.png");
            let labels = self.setup.labels(sheet.len());
            let images: Vec<Image> = sheet.into_iter().flatten().collect();
            atomic::write(&path, &sheet_of(images, labels)?)?;
            files.push(path);
        }
        if is_image(self.image) {
            files.push(dir.clone());
        }
        Ok(files)
    }

    /// An error if an image is gone that was written or found: someone else removed it meanwhile.
    pub fn require_images(&self) -> Result<()> {
        let paths = (0..self.setup.samples()).filter_map(|i| self.image_path(i));
        match paths.into_iter().find(|path| !path.is_file()) {
            None => Ok(()),
            Some(path) => {
                let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "removed by someone else during the run");
                Err(Error::io("find", &path, gone))
            }
        }
    }
}

impl Output<'_> {
    /// Takes finished samples behind their states, if those are kept. Images are written at once.
    pub fn take(&mut self, indices: &[usize], states: &[Tensor]) -> Result<()> {
        let Some((samples, states)) = states.split_last() else { return Ok(()) };
        let len = samples.sample_len();
        for (number, state) in states.iter().enumerate() {
            for (row, index) in indices.iter().enumerate() {
                let at = (number * self.setup.samples() + index) * len;
                self.states[at..at + len].copy_from_slice(state.sample(row));
            }
        }
        for (row, index) in indices.iter().enumerate() {
            if !self.samples.is_empty() {
                self.samples[index * len..(index + 1) * len].copy_from_slice(samples.sample(row));
            }
            match self.setup.model.model.decoder() {
                Some(_) if self.outdir.is_some() => self.encoded.push(*index),
                Some(_) => {}
                None => self.write_image(*index, samples.sample(row), &[])?,
            }
        }
        Ok(())
    }
}

/// Which seed shows which prompt: the first of consecutive seeds, which may become more, or all of them.
fn first_prompt(setup: &Setup) -> serde_json::Value {
    let seeds: Vec<u64> = (0..setup.samples()).map(|index| setup.inputs.noise.seed(index)).collect();
    match seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1])) {
        true => json!(seeds.first()),
        false => json!(seeds),
    }
}

/// A class by name and by number is one setting.
fn class_asked(show: &Show) -> Option<String> {
    match show {
        Show::Class(class) => Some(class.to_string()),
        Show::Anything => Some("none".into()),
        _ => None,
    }
}

/// Everything that decides the samples of seeds, as text.
fn settings(args: &SampleArgs, setup: &Setup) -> String {
    let Setup { model, inputs, sampler, coefficients, .. } = setup;
    let mut facts = json!({
        "model": model.name, "sha256": model.sha256, "solver": sampler.solver.label(), "options": args.draw.solver.given(),
        "coefficients": coefficients, "sigmas": sampler.sigmas(), "afs": sampler.afs,
        "denoise_to_zero": sampler.denoise_to_zero,
        "class": class_asked(&inputs.show), "guidance": inputs.guidance, "rng": args.draw.rng, "latents": inputs.noise.fingerprint(),
        "computed": model.settings,
    });
    if let Some(prompts) = inputs.show.prompts() {
        facts["prompts"] = json!(prompts.texts());
        facts["negative"] = json!(prompts.negative());
        if prompts.texts().len() > 1 {
            facts["prompts_from"] = first_prompt(setup);
        }
    }
    format!("{facts:#}\n")
}

/// Images as the bytes of one, enlarged where they are small, with the name of what each shows where it has one.
fn sheet_of(images: Vec<Image>, labels: Vec<String>) -> Result<Vec<u8>> {
    let columns = (images.len() as f64).sqrt().ceil() as usize;
    let side = images.first().map_or(1, |image| image.width().max(image.height()).max(1));
    let factor = (LARGEST_SHEET / (columns.max(1) * side)).min(SEEN_WELL / side).max(1);
    if labels.len() == images.len() {
        let labelled: Vec<_> = images.iter().cloned().zip(labels).collect();
        if let Some(canvas) = labelled_sheet(&labelled, columns, factor)? {
            return canvas.to_png(1.0);
        }
    }
    let images = images.iter().map(|image| enlarged(image, factor)).collect::<Result<Vec<_>>>()?;
    Ok(contact_sheet(&images, columns, 2)?.to_png())
}

/// The image with every pixel a square of `factor` by `factor`.
fn enlarged(image: &Image, factor: usize) -> Result<Image> {
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    let pixel = |x: usize, y: usize| {
        let at = (y / factor * width + x / factor) * channels;
        &image.data()[at..at + channels]
    };
    let (wide, high) = (width * factor, height * factor);
    let data = (0..high).flat_map(|y| (0..wide).flat_map(move |x| pixel(x, y)).copied());
    Image::new(wide, high, channels, data.collect())
}

/// A directory holds the samples of one setting: other settings are refused, the same ones are continued.
fn claim(dir: &Path, args: &SampleArgs, settings: &str) -> Result<()> {
    let Some(replaced) = claimed(dir, args, settings)? else { return Ok(()) };
    for image in replaced {
        std::fs::remove_file(&image).map_err(|e| Error::io("remove", &image, e))?;
    }
    atomic::write(&dir.join(FACTS), settings.as_bytes())
}

/// The images that these settings would replace; none where they are those of the directory already.
fn claimed(dir: &Path, args: &SampleArgs, settings: &str) -> Result<Option<Vec<PathBuf>>> {
    let path = dir.join(FACTS);
    let images = images(dir)?;
    let found = if path.exists() { Some(read_file(&path, LARGEST_FACTS)?) } else { None };
    let problem = match found {
        Some(found) if *found == *settings.as_bytes() && !args.overwrite => return Ok(None),
        Some(_) => format!("{} holds samples made with other settings (see run.json there)", shown(dir)),
        // Images of unknown settings must not pass for finished ones.
        None if !images.is_empty() => format!("{} holds images, but not how they were made", shown(dir)),
        None => return Ok(Some(images)),
    };
    match args.overwrite {
        true => Ok(Some(images)),
        false => Err(Error::conflict(problem, "choose another --out, or --overwrite")),
    }
}

/// The images of seeds in a directory, `NNN000/NNNNNN.png`. Nothing else there is ours.
fn images(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = |dir: &Path| -> Result<Vec<PathBuf>> {
        let failed = |e| Error::io("read", dir, e);
        std::fs::read_dir(dir).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
    };
    let is_number = |text: &str| text.len() >= 6 && text.bytes().all(|b| b.is_ascii_digit());
    let name = |path: &PathBuf| path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_string();
    let is_folder = |path: &PathBuf| is_number(&name(path)) && name(path).ends_with("000") && path.is_dir();
    let mut found = Vec::new();
    for folder in entries(dir)?.iter().filter(|path| is_folder(path)) {
        found.extend(entries(folder)?.into_iter().filter(|f| name(f).strip_suffix(".png").is_some_and(is_number)));
    }
    Ok(found)
}

/// Under which name the precision is stated, where it is not the usual one.
const PRECISION: &str = "precision";

/// How the samples were made, for files.
fn metadata(setup: &Setup) -> BTreeMap<String, String> {
    let (model, precision) = (setup.model.name.clone(), setup.model.precision());
    let stated = (precision != Precision::default()).then(|| (PRECISION, precision.name().to_string()));
    let facts = [("nfe", setup.sampler.nfe.to_string()), ("solver", setup.sampler.solver.label()), ("model", model)];
    facts.into_iter().chain(stated).map(|(k, v)| (k.to_string(), v)).collect()
}

fn insert(file: &mut TensorFile, path: &Path, name: &str, shape: &[usize], values: &[f64]) -> Result<()> {
    let tensor = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(path, p))?;
    file.tensors.insert(name.into(), tensor);
    Ok(())
}
