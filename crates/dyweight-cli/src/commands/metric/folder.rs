//! Folders of PNG files: found in order, decoded in parallel.

use crate::ui;
use dyweight::error::shown;
use dyweight::files::OutputGuard;
use dyweight::files::image::Image;
use dyweight::{Error, Result, Tensor};
use rayon::prelude::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The PNG files below a folder, all of one size.
pub struct Folder {
    pub files: Vec<PathBuf>,
    pub shape: [usize; 3],
    /// A picture of another format, if there is one.
    other: Option<PathBuf>,
    /// How many there are.
    others: usize,
}

/// Endings of pictures that are not read.
const OTHERS: [&str; 7] = ["jpg", "jpeg", "webp", "bmp", "gif", "tif", "tiff"];

impl Folder {
    /// Finds the files and looks at the first; the first `num` count, if that is given.
    pub fn open(path: &Path, num: Option<usize>) -> Result<Self> {
        let mut files = Vec::new();
        collect(path, &mut HashSet::new(), &mut files)?;
        let ends = |file: &Path, known: &[&str]| {
            file.extension().is_some_and(|e| known.iter().any(|known| e.eq_ignore_ascii_case(known)))
        };
        let (mut files, others): (Vec<PathBuf>, Vec<PathBuf>) =
            files.into_iter().partition(|file| ends(file, &["png"]));
        let others: Vec<PathBuf> = others.into_iter().filter(|file| ends(file, &OTHERS)).collect();
        let (other, others) = (others.iter().min().cloned(), others.len());
        // By their names from the top: the order in which the sampler writes seeds.
        files.sort();
        if let Some(num) = num {
            require_enough(&shown(path), files.len(), num)?;
            files.truncate(num);
        }
        let first = files.first().ok_or_else(|| {
            Error::conflict(
                format!("there are no PNG files in {}", shown(path)),
                "give a folder of images, such as the --out of dyweight sample",
            )
        })?;
        let shape = shape_of(&Image::read(first)?);
        Ok(Self { files, shape, other, others })
    }

    /// Refuses an output that would take the place of an image.
    pub fn keep_apart(&self, out: Option<&Path>) -> Result<()> {
        let Some(out) = out.filter(|out| out.exists()) else { return Ok(()) };
        let images = self.files.iter().map(|file| ("an image of the set", file.as_path()));
        OutputGuard::new(images).beside("--out", out).check()
    }

    /// Says how many pictures are passed over.
    pub fn count_others(&self, path: &Path) {
        if let Some(other) = &self.other {
            let (many, first) = (self.others, shown(other));
            let what = if many == 1 { "1 picture is".into() } else { format!("{many} pictures are") };
            ui::warn(&format!("{what} passed over in {}: only PNG files are read, and {first} is none", shown(path)));
        }
    }

    /// Refuses pictures that would be passed over: those behind would move up to prompts that are not theirs.
    pub fn refuse_others(&self) -> Result<()> {
        let Some(other) = &self.other else { return Ok(()) };
        Err(Error::conflict(
            format!("{} is no PNG file, and only those are read", shown(other)),
            "convert it, or move it elsewhere",
        ))
    }

    /// Refuses folders that do not hold images of the same names.
    pub fn refuse_odd(&self, root: &Path, other: &Self, other_root: &Path) -> Result<()> {
        let names = |folder: &Self, root: &Path| -> Vec<PathBuf> {
            folder.files.iter().map(|f| f.strip_prefix(root).unwrap_or(f).to_owned()).collect()
        };
        let (ours, theirs) = (names(self, root), names(other, other_root));
        let odd = ours.iter().find(|n| theirs.binary_search(n).is_err());
        match odd.or_else(|| theirs.iter().find(|n| ours.binary_search(n).is_err())) {
            None => Ok(()),
            Some(odd) => Err(Error::conflict(
                format!("{} is in one of the folders only", shown(odd)),
                "both must hold images of the same seeds",
            )),
        }
    }

    /// Some of the images, as samples.
    pub fn batch(&self, files: &[PathBuf]) -> Result<Tensor> {
        // The first error in the order of the files, whoever meets one first.
        let read: Vec<Result<Tensor>> = files.par_iter().map(|file| self.read(file)).collect();
        Tensor::concat(&read.into_iter().collect::<Result<Vec<_>>>()?)
    }

    fn read(&self, file: &Path) -> Result<Tensor> {
        let image = Image::read(file)?;
        let found = shape_of(&image);
        if found != self.shape {
            let what = format!("image {} (channels, height, width)", shown(file));
            return Err(Error::Shape { what, expected: self.shape.to_vec(), found: found.to_vec() });
        }
        Ok(image.to_sample())
    }
}

fn shape_of(image: &Image) -> [usize; 3] {
    [image.channels(), image.height(), image.width()]
}

/// An error unless there are `num`.
pub fn require_enough(what: &str, there: usize, num: usize) -> Result<()> {
    let bad = |expected| Err(Error::bad_value("num", num, expected));
    match num {
        0 => bad("at least one image".into()),
        _ if there < num => bad(format!("{what} has only {there} images")),
        _ => Ok(()),
    }
}

/// Links may lead into a folder, but to each only once: in circles there is no end, and an image counted twice would
/// make an error smaller than it is.
fn collect(folder: &Path, seen: &mut HashSet<PathBuf>, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e| Error::io("read", folder, e);
    if !seen.insert(std::fs::canonicalize(folder).map_err(failed)?) {
        return Err(failed(std::io::Error::other("a link leads to a folder whose images are counted already")));
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, seen, files)?;
        } else if !is_sheet(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// The contact sheet that `sample --grid` leaves beside its images is not one of them.
fn is_sheet(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n == "grid.png") && path.with_file_name("run.json").is_file()
}
