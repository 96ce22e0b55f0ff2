//! Mean and covariance of features, and their files.
//!
//! ```text
//! .npz   mu [d] f64 · sigma [d, d] f64                       what the field's scripts write and read
//!        provenance [bytes] u8, JSON of an Origin              ours; others ignore it, files without it are read
//! ```

use crate::linalg::Symmetric;
use crate::{Features, Origin};
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::{ArrayFile, Dtype, Fingerprint, StoredTensor};
use std::path::Path;

/// Asymmetry that is forgiven: some files were computed or stored in f32.
const ASYMMETRY: f64 = 1e-5;

/// Mean and covariance of features.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Mean.
    pub mu: Vec<f64>,
    /// Covariance, with divisor n−1.
    pub sigma: Symmetric,
    /// Where they come from.
    pub source: Origin,
}

impl Statistics {
    /// Of gathered features; `source` is completed by their number.
    pub fn of(features: &Features, source: Origin) -> Result<Self> {
        let moments = features.moments();
        let source = Origin { count: Some(features.len()), ..source };
        Ok(Self { mu: moments.mean().to_vec(), sigma: moments.covariance()?, source })
    }

    /// Reads an `.npz`.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_arrays(path, &ArrayFile::read(path)?)
    }

    /// From the arrays of an `.npz`; `path` names it in messages.
    pub(crate) fn from_arrays(path: &Path, file: &ArrayFile) -> Result<Self> {
        let array = |name: &str| file.array(name).map_err(|p| Error::malformed(path, p));
        let (mu, sigma) = (array("mu")?, array("sigma")?);
        let what = |name: &str| format!("'{name}' in {}", path.display());
        let dims = mu.len();
        for (name, array, expected) in [("mu", mu, vec![dims]), ("sigma", sigma, vec![dims, dims])] {
            if array.shape() != expected || dims == 0 {
                return Err(Error::Shape { what: what(name), expected, found: array.shape().to_vec() });
            }
            if !matches!(array.dtype(), Dtype::F64 | Dtype::F32 | Dtype::F16) {
                let (name, found) = (name.into(), array.dtype().name());
                return Err(Error::malformed(path, Malformed::Type { name, expected: "a float array", found }));
            }
        }
        let mu = mu.to_f64();
        if let Some(index) = mu.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { what: what("mu"), index, value: mu[index] });
        }
        let sigma = Symmetric::new(&what("sigma"), dims, sigma.to_f64(), ASYMMETRY)?;
        let source = file.arrays.get("provenance").and_then(|p| serde_json::from_slice(p.bytes()).ok());
        let unnamed = || Origin { images: Some(path.display().to_string()), ..Origin::default() };
        Ok(Self { mu, sigma, source: source.unwrap_or_else(unnamed) })
    }

    /// Writes an `.npz`, all or nothing.
    pub fn write(&self, path: &Path) -> Result<()> {
        let refused = |p: Malformed| Error::malformed(path, p);
        let dims = self.mu.len();
        let mut file = ArrayFile::default();
        let mut insert = |name: &str, array: Result<StoredTensor, Malformed>| {
            array.map(|a| file.arrays.insert(name.into(), a)).map_err(refused)
        };
        insert("mu", StoredTensor::from_f64(&[dims], &self.mu))?;
        insert("sigma", StoredTensor::from_f64(&[dims, dims], self.sigma.data()))?;
        let text = serde_json::to_vec(&self.source).unwrap_or_default();
        insert("provenance", StoredTensor::new("provenance", Dtype::U8, vec![text.len()], text.into()))?;
        file.write(path)
    }

    /// Fingerprint of the numbers.
    pub fn fingerprint(&self) -> String {
        Fingerprint::default().add_numbers(&self.mu).add_numbers(self.sigma.data()).text()
    }
}

const FASHION: &[u8] = include_bytes!("../../assets/fashion_reference.npz");

const FASHION_BY_JUDGE: &[u8] = include_bytes!("../../assets/fashion_judge_reference.npz");

const FASHION_BY_PIXELS: &[u8] = include_bytes!("../../assets/fashion_pixels_reference.npz");

/// The 60 000 training images of Fashion-MNIST, under `fashion-features`.
pub fn fashion() -> Result<Statistics> {
    embedded(FASHION)
}

/// The same images under `fashion-judge`.
pub(crate) fn fashion_by_judge() -> Result<Statistics> {
    embedded(FASHION_BY_JUDGE)
}

/// The same images under `pixels`.
pub(crate) fn fashion_by_pixels() -> Result<Statistics> {
    embedded(FASHION_BY_PIXELS)
}

fn embedded(bytes: &'static [u8]) -> Result<Statistics> {
    let path = Path::new("fashion");
    let file = ArrayFile::parse(bytes.to_vec().into()).map_err(|p| Error::malformed(path, p))?;
    Statistics::from_arrays(path, &file)
}
