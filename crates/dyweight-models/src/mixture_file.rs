//! Mixtures in safetensors files.

use crate::spec::refuse_foreign;
use dyweight_core::denoiser::Denoiser;
use dyweight_core::error::{Error, Result};
use dyweight_core::mixture::Mixture;
use dyweight_files::{Fingerprint, Format, Malformed, SharedBytes, TensorFile, sniff};
use std::path::Path;

/// The tensors of a file that holds a mixture.
pub(crate) fn mixture_file(path: &Path, bytes: &SharedBytes) -> Result<Option<TensorFile>> {
    if sniff(bytes) != Format::Safetensors {
        return Ok(None);
    }
    let file = TensorFile::parse(bytes.clone()).map_err(|p| Error::malformed(path, p))?;
    refuse_foreign(path, &file)?;
    Ok(Some(file).filter(|f| f.tensors.contains_key("model.mu")))
}

/// A mixture from `model.mu` `[k, d]`, `model.std` `[k]` and `model.weight` `[k]`; metadata `process` = `flow` make it
/// the flow of that mixture.
pub(crate) fn mixture_of(path: &Path, file: &TensorFile) -> Result<Mixture> {
    let tensor = |name: &str| file.tensor(name).map_err(|p| Error::malformed(path, p));
    let (means, stds, weights) = (tensor("model.mu")?, tensor("model.std")?, tensor("model.weight")?);
    let [k, d] = *means.shape() else {
        let what = format!("tensor 'model.mu' in {}", path.display());
        return Err(Error::Shape { what, expected: vec![stds.len(), 0], found: means.shape().to_vec() });
    };
    for (name, tensor) in [("model.std", stds), ("model.weight", weights)] {
        if tensor.shape() != [k] {
            let what = format!("tensor '{name}' in {}", path.display());
            return Err(Error::Shape { what, expected: vec![k], found: tensor.shape().to_vec() });
        }
    }
    let (stds, weights, means) = (stds.to_f64(), weights.to_f64(), means.to_f64());
    if d == 0 {
        return Err(Error::malformed(path, Malformed::Inconsistent { problem: "'model.mu' has no columns".into() }));
    }
    let rows = means.chunks(d).zip(stds).zip(weights).map(|((m, s), w)| (m.to_vec(), s, w));
    let mixture = Mixture::new(rows.collect())?;
    match file.metadata.get("process").map(String::as_str) {
        None | Some("denoised") => Ok(mixture),
        Some("flow") => Ok(mixture.as_flow()),
        Some(other) => {
            let problem = format!("'process' is '{other}', neither 'flow' nor 'denoised'");
            Err(Error::malformed(path, Malformed::Inconsistent { problem }))
        }
    }
}

/// The hash of a mixture's numbers.
pub(crate) fn fingerprint(mixture: &Mixture) -> String {
    let mut hash = Fingerprint::default();
    hash.add(format!("{:?}", mixture.info().prediction).as_bytes());
    for (mean, std, weight) in mixture.components() {
        hash.add_numbers(mean).add_numbers(&[std, weight]);
    }
    hash.text()
}
