//! Released coefficient files convert to exactly the built-in presets.
//!
//! The files are not in this repository. With `DYWEIGHT_OFFICIAL_DIR` set to a directory that holds them (named like
//! `00000-cifar-nfe3.pkl`, `flux-dyweight_nfe3.pt`), all of them are converted and compared.

use dyweight::files::OfficialCoefficients;
use dyweight::{learned, presets};
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
    for name in presets::names().filter(|name| presets::model(name).is_some()) {
        let (_, mut preset) = presets::find(name).unwrap();
        let source = preset.training.remove("source").unwrap();
        preset.training.remove("provenance");
        let read = OfficialCoefficients::read(&directory.join(flat_name(source.as_str().unwrap())));
        let read = read.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(learned::released(&read).unwrap(), preset, "{name}");
    }
}
