//! What a command is going to write, and what must not be lost to it: asked before the long work.

use crate::place::{is_same_file, parent};
use crate::{Format, atomic, read_data, sniff};
use dyweight_core::error::{Error, Result, shown};
use std::fs;
use std::path::Path;

/// A path, and what the user calls it: `--model`, `the input`.
pub type NamedPath<'n> = (&'n str, &'n Path);

/// Outputs of a command, beside its inputs.
#[derive(Clone, Debug, Default)]
pub struct OutputGuard<'p> {
    inputs: Vec<NamedPath<'p>>,
    outputs: Vec<(NamedPath<'p>, Kind)>,
}

/// What may be lost to an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No input, no other output, no file of a model's folder, and no solver: one may have taken hours to learn.
    File,
    /// A solver itself, which may replace one.
    Solver,
    /// Made beside others, or in a folder of its own: no input and no other output.
    Beside,
}

impl<'p> OutputGuard<'p> {
    /// Of what is read. What is no file (a name that is built in, a directory) stands in nobody's way.
    pub fn new(inputs: impl IntoIterator<Item = NamedPath<'p>>) -> Self {
        Self { inputs: inputs.into_iter().collect(), outputs: Vec::new() }
    }

    /// A result.
    pub fn file(self, name: &'p str, path: &'p Path) -> Self {
        self.with((name, path), Kind::File)
    }

    /// A solver file.
    pub fn solver(self, name: &'p str, path: &'p Path) -> Self {
        self.with((name, path), Kind::Solver)
    }

    /// What is made along with a result.
    pub fn beside(self, name: &'p str, path: &'p Path) -> Self {
        self.with((name, path), Kind::Beside)
    }

    fn with(mut self, output: NamedPath<'p>, kind: Kind) -> Self {
        self.outputs.push((output, kind));
        self
    }

    /// Refuses outputs that cannot be written, or that would take the place of what must stay.
    pub fn check(&self) -> Result<()> {
        (0..self.outputs.len()).try_for_each(|at| self.apart(at))?;
        for ((name, path), kind) in self.outputs.iter().filter(|(_, kind)| *kind != Kind::Beside) {
            match (is_solver(path), kind) {
                // A solver that stands in a model's folder is not one of the model's files.
                (true, Kind::Solver) => {}
                (true, _) => {
                    return Err(Error::conflict(
                        format!("{name} {} is a solver file, and would be replaced", shown(path)),
                        "choose another name for the output",
                    ));
                }
                (false, _) => self.out_of_folders(name, path)?,
            }
            atomic::try_place(path)?;
        }
        Ok(())
    }

    /// An error if an output would take the place of an input, or of an output before it.
    fn apart(&self, at: usize) -> Result<()> {
        let (output, path) = self.outputs[at].0;
        if path == Path::new("-") {
            return Err(Error::conflict(
                format!("{output} - is not a file; nothing but a result's summary goes to standard output"),
                "give a name; a file called - is ./-",
            ));
        }
        let before = self.outputs[..at].iter().map(|(output, _)| output);
        let mut in_the_way = self.inputs.iter().filter(|(_, input)| input.is_file()).chain(before);
        match in_the_way.find(|(_, other)| is_same_file(path, other)) {
            Some((other, _)) => Err(Error::conflict(
                format!("{output} {} is the same file as {other}, and would replace it", shown(path)),
                "choose another name for the output",
            )),
            None => Ok(()),
        }
    }

    /// An error if an output would take the place of a file in the folder of an input, as the weights of a model's
    /// folder are. A new file may stand there.
    fn out_of_folders(&self, output: &str, path: &Path) -> Result<()> {
        if !path.is_file() {
            return Ok(());
        }
        let Ok(place) = fs::canonicalize(parent(path)) else { return Ok(()) };
        let holds = |folder: &Path| folder.is_dir() && fs::canonicalize(folder).is_ok_and(|it| place.starts_with(it));
        match self.inputs.iter().find(|(_, input)| holds(input)) {
            Some((input, folder)) => Err(Error::conflict(
                format!(
                    "{output} {} is a file in the folder of {input}, {}, and would be replaced",
                    shown(path),
                    shown(folder)
                ),
                "choose another name for the output",
            )),
            None => Ok(()),
        }
    }
}

fn is_solver(path: &Path) -> bool {
    read_data(path).is_ok_and(|bytes| sniff(&bytes) == Format::SolverFile)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dyweight-guard-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("sub")).unwrap();
        path
    }

    #[test]
    fn outputs_stand_apart_from_inputs_and_each_other() {
        let at = directory("apart");
        fs::write(at.join("in"), "x").unwrap();
        let (input, one, two) = (at.join("in"), at.join("one"), at.join("sub/../one"));
        let guard = || OutputGuard::new([("`model`", input.as_path())]);
        let message = |guard: OutputGuard<'_>| guard.check().map_err(|e| e.to_string());
        assert!(message(guard().file("`out`", &one)).is_ok());
        assert!(message(guard().file("`out`", &input)).unwrap_err().contains("is the same file as `model`"));
        let twice = guard().solver("`out`", &one).beside("`trace`", &two);
        assert!(message(twice).unwrap_err().contains("is the same file as `out`"));
        assert!(message(guard().beside("`out`", Path::new("-"))).unwrap_err().contains("`out` -"));
        // A built-in name is no file.
        let named = Path::new("mixture");
        assert!(OutputGuard::new([("`model`", named)]).beside("`out`", named).check().is_ok());
        fs::remove_dir_all(at).unwrap();
    }

    #[test]
    fn files_in_the_folder_of_an_input_stay() {
        let at = directory("folders");
        fs::create_dir_all(at.join("model/unet")).unwrap();
        fs::write(at.join("stored"), "x").unwrap();
        fs::write(at.join("model/index"), "x").unwrap();
        // As caches of downloads have it.
        symlink("../../stored", at.join("model/unet/weights")).unwrap();
        symlink("model", at.join("link")).unwrap();
        let allowed = |name: &str, folder: &str| {
            let (folder, path) = (at.join(folder), at.join(name));
            OutputGuard::new([("`model`", folder.as_path())]).out_of_folders("`out`", &path).is_ok()
        };
        for folder in ["model", "link", "sub/../model"] {
            for name in ["model/index", "link/index", "model/unet/weights", "link/unet/../unet/weights"] {
                assert!(!allowed(name, folder), "{name} {folder}");
            }
            assert!(allowed("model/new", folder) && allowed("stored", folder) && allowed("no/such", folder));
        }
        assert!(allowed("model/index", "model/unet") && allowed("model/index", "absent"));
        fs::remove_dir_all(at).unwrap();
    }
}
