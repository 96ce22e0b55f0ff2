//! Running the program and looking at how it ends.

use dyweight::files::{StoredTensor, TensorFile};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A directory of a test's own, removed when the test succeeds.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let number = PLACES.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("dyweight-cli-{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// A safetensors file of f64 tensors.
    pub fn tensors(&self, name: &str, tensors: &[(&str, &[usize], &[f64])]) {
        let mut file = TensorFile::default();
        for (name, shape, values) in tensors {
            file.tensors.insert(name.to_string(), StoredTensor::from_f64(shape, values).unwrap());
        }
        file.write(&self.path(name)).unwrap();
    }

    /// What lies in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The program in this directory, with arguments separated by spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyweight"));
        command.args(arguments.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &str) -> Ended {
        Ended::of(arguments, self.command(arguments).output().unwrap())
    }

    /// Runs what must be refused: exit code 2, nothing on stdout, an error that says all of `says`, nothing left
    /// behind.
    pub fn refuses(&self, arguments: &str, says: &[&str]) {
        let before = self.names();
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_eq!(ended.stdout, "", "{ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{ended:?}");
        for text in says {
            assert!(ended.stderr.contains(text), "'{text}' is missing: {ended:?}");
        }
        assert_eq!(self.names(), before, "something was left behind: {ended:?}");
    }

    /// Runs what must work.
    pub fn works(&self, arguments: &str) -> Ended {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// How a run ended.
#[derive(Debug)]
#[expect(dead_code, reason = "the arguments are for messages of tests that fail")]
pub struct Ended {
    pub arguments: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// No run may panic, whatever it was given.
    pub fn of(arguments: &str, output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        let ended = Self { arguments: arguments.into(), code: output.status.code(), stdout, stderr };
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        ended
    }

    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// The bytes of a file that must be there.
pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
