//! Where images come from, and their features.

use super::CommonArgs;
use super::folder::{Folder, require_enough};
use crate::args::ModelArgs;
use crate::commands::sample::Setup;
use crate::ui;
use dyweight::comm::Solo;
use dyweight::features::FeatureMap;
use dyweight::metrics::frechet::Statistics;
use dyweight::metrics::{Features, Origin, quantise};
use dyweight::{Error, Result, Tensor};
use std::path::Path;
use std::sync::Arc;

/// Images of a batch, unless --batch says otherwise.
pub const BATCH: usize = 64;

/// A set of images.
pub enum Images {
    Folder { name: String, folder: Folder },
    Sampler(Box<Setup>),
}

/// Its features, and what they are features of.
pub struct Measured {
    pub features: Features,
    pub source: Origin,
}

impl Measured {
    /// Mean and covariance under a name.
    pub fn statistics(self, name: &str) -> Result<Statistics> {
        Statistics::of(&self.features, Origin { images: Some(name.into()), ..self.source })
    }
}

impl Images {
    /// A folder, which must not hold what `out` would replace, or the sampler the arguments describe.
    pub fn open(name: &str, args: &CommonArgs, out: Option<&Path>) -> Result<Self> {
        if name == "sampler" {
            return Ok(Images::Sampler(Box::new(sampler(args)?)));
        }
        let path = Path::new(name);
        if path.is_file() {
            return Err(Error::conflict(
                format!("{name} is a file, but images are needed"),
                "give a folder of PNG files, 'sampler' with --model, or for fid an .npz with 'mu' and 'sigma'",
            ));
        }
        let folder = Folder::open(path, args.num)?;
        folder.keep_apart(out)?;
        folder.count_others(path);
        Ok(Images::Folder { name: name.into(), folder })
    }

    /// Channels, height and width of an image.
    pub fn shape(&self) -> [usize; 3] {
        match self {
            Images::Folder { folder, .. } => folder.shape,
            Images::Sampler(setup) => setup.model.model.shape(),
        }
    }

    /// The features that fit.
    pub fn map(&self, args: &CommonArgs) -> Result<Arc<dyn FeatureMap>> {
        args.features.spec().build(self.shape())
    }

    /// What their features are features of.
    pub fn source(&self, args: &CommonArgs) -> Result<Origin> {
        let map = self.map(args)?;
        let (images, count) = match self {
            Images::Folder { name, folder } => (name.clone(), folder.files.len()),
            Images::Sampler(setup) => {
                let (solver, nfe) = (setup.sampler.solver.label(), setup.sampler.nfe);
                let name = format!("{} with {solver}, {nfe} calls", setup.model.name);
                (name, args.num.unwrap_or(setup.samples()))
            }
        };
        Ok(Origin { count: Some(count), ..Origin::of(&*map, &images) })
    }

    /// Takes the features of all images, in order.
    pub fn measure(&self, args: &CommonArgs) -> Result<Measured> {
        let (map, source) = (self.map(args)?, self.source(args)?);
        let mut gathered = Gathered { features: Features::new(map.dims()), map };
        match self {
            Images::Folder { folder, .. } => {
                let batch = args.draw.batch.unwrap_or(BATCH);
                let mut progress = ui::Progress::new("features", folder.files.len());
                for files in folder.files.chunks(batch) {
                    gathered.add(&folder.batch(files)?)?;
                    ui::go_on()?;
                    progress.add(files.len(), "");
                }
                progress.finish();
            }
            Images::Sampler(setup) => {
                let wanted: Vec<usize> = (0..args.num.unwrap_or(setup.samples())).collect();
                setup.draw(&wanted, false, &Solo, &mut |_, states| gathered.take(states))?;
            }
        }
        Ok(Measured { features: gathered.features, source })
    }
}

fn sampler(args: &CommonArgs) -> Result<Setup> {
    let Some(model) = args.model.clone() else {
        return Err(Error::conflict(
            "which model should the sampler use?",
            "give --model; for a folder of that name write ./sampler",
        ));
    };
    let setup = Setup::open(&ModelArgs { model, options: args.options.clone() }, &args.draw)?;
    if let Some(num) = args.num {
        require_enough("the list of seeds", setup.samples(), num)?;
    }
    Ok(setup)
}

/// Features in the making.
struct Gathered {
    features: Features,
    map: Arc<dyn FeatureMap>,
}

impl Gathered {
    fn add(&mut self, images: &Tensor) -> Result<()> {
        self.features.push(&self.map.features(images)?)
    }

    /// Samples go through eight bits first, as if they had been written.
    fn take(&mut self, states: &[Tensor]) -> Result<()> {
        states.last().map_or(Ok(()), |samples| self.add(&quantise(samples)))
    }
}
