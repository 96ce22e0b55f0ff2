//! Which prompt belongs to which image.

use dyweight::error::{named, shown};
use dyweight::{Error, Result};
use std::path::{Path, PathBuf};

/// The rule.
#[derive(Clone, Copy)]
pub enum Pairing {
    /// Image i, in sorted order, and prompt i.
    Order,
    /// The same, prompts beginning again after the last, as `sample` uses them.
    Cycle,
    /// The number before the first underscore of a file's name, counted from 0.
    Name,
}

impl Pairing {
    pub fn named(name: &str) -> Result<Self> {
        named("pairing", name, &[("order", Self::Order), ("cycle", Self::Cycle), ("name", Self::Name)])
    }

    /// The number of each image's prompt among `count`.
    pub fn prompts_of(self, files: &[PathBuf], prompts: &Path, count: usize) -> Result<Vec<usize>> {
        let images = files.len();
        match self {
            Pairing::Order if images == count => Ok((0..count).collect()),
            Pairing::Order => {
                let several = images > count && images.is_multiple_of(count);
                let cycle =
                    if several { " or use --pair cycle, if image i shows prompt i modulo their number;" } else { "" };
                Err(Error::conflict(
                    format!("{images} images, but {count} prompts in {}: they must be equally many", shown(prompts)),
                    format!(
                        "empty lines do not count as prompts;{cycle} or use --pair name, if names begin with numbers of prompts"
                    ),
                ))
            }
            Pairing::Cycle => Ok((0..images).map(|i| i % count).collect()),
            Pairing::Name => files.iter().map(|file| number_of(file, prompts, count)).collect(),
        }
    }
}

fn number_of(file: &Path, prompts: &Path, count: usize) -> Result<usize> {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let number = stem.split('_').next().and_then(|text| text.parse::<usize>().ok());
    match number {
        Some(number) if number < count => Ok(number),
        Some(number) => Err(Error::conflict(
            format!("{} is of prompt {number}, but {} has only {count}, from 0 on", shown(file), shown(prompts)),
            "is it the list the images were made from?",
        )),
        None => Err(Error::conflict(
            format!("the name of {} does not begin with the number of a prompt", shown(file)),
            "--pair name is for names such as 000012_00.png; --pair order goes by place",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rule: &str, names: &[&str], count: usize) -> Result<Vec<usize>> {
        let files: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        Pairing::named(rule)?.prompts_of(&files, Path::new("p.txt"), count)
    }

    #[test]
    fn by_place_and_by_name() {
        let names = ["a/000001_00.png", "a/000001_01.png", "a/0.png"];
        assert_eq!(of("order", &names, 3).unwrap(), [0, 1, 2]);
        assert_eq!(of("cycle", &names, 2).unwrap(), [0, 1, 0]);
        assert_eq!(of("name", &names, 2).unwrap(), [1, 1, 0]);
        assert!(
            of("order", &names, 2).is_err() && of("name", &names, 1).is_err() && of("name", &["x_1.png"], 2).is_err()
        );
        assert!(of("order", &names[..2], 1).unwrap_err().hint().unwrap().contains("--pair cycle"));
        assert!(of("odrer", &names, 3).is_err());
    }
}
