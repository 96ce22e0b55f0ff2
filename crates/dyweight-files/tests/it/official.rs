//! Released coefficient files convert to exactly the built-in presets.
//!
//! The files are not in this repository. With `DYWEIGHT_OFFICIAL_DIR` set to a directory that holds them (named like
//! `00000-cifar-nfe3.pkl`, `flux-dyweight_nfe3.pt`), all of them are converted and compared.

use dyweight_files::{OfficialCoefficients, Preset, Presets};
use dyweight_testing::outside;

/// The flat file name of a released file, from its path in the release.
fn flat_name(source: &str) -> String {
    let parts: Vec<&str> = source.split('/').collect();
    match parts[..] {
        ["exps", experiment, _] => format!("{experiment}.pkl"),
        _ => format!("flux-{}", parts[parts.len() - 1]),
    }
}

#[test]
fn released_files_equal_the_presets() {
    let Some(directory) = outside("DYWEIGHT_OFFICIAL_DIR") else { return };
    let presets = &Presets::official().expect("built in").presets;
    for Preset { name, source, coefficients, .. } in presets {
        let path = directory.join(flat_name(source));
        let read = OfficialCoefficients::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read, *coefficients, "{name}");
    }
}
