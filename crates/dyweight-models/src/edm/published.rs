//! The architectures of the released EDM checkpoints, for measurements without the files.

use super::config::Config;
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use serde_json::{Value, json};
use std::path::Path;

/// Names with a line each.
pub const PUBLISHED: &[(&str, &str)] = &[
    ("edm-cifar10", "DDPM++ of cifar10-32x32-uncond-vp, 55.7 million weights"),
    ("edm-cifar10-ncsnpp", "NCSN++ of cifar10-32x32-uncond-ve, 56.4 million weights"),
    ("edm-ffhq", "DDPM++ of ffhq-64x64-uncond-vp, 61.8 million weights"),
    ("edm-imagenet64", "ADM of imagenet-64x64-cond-adm, 295.9 million weights"),
];

/// The configuration of a released checkpoint.
pub fn published(name: &str) -> Result<Config> {
    let options = match name {
        "edm-cifar10" => song(json!({"img_resolution": 32, "channel_mult": [2, 2, 2]})),
        "edm-cifar10-ncsnpp" => song(json!({
            "img_resolution": 32, "channel_mult": [2, 2, 2], "embedding_type": "fourier",
            "encoder_type": "residual", "resample_filter": [1, 3, 3, 1], "channel_mult_noise": 2,
        })),
        "edm-ffhq" => song(json!({"img_resolution": 64, "channel_mult": [1, 2, 2, 2]})),
        "edm-imagenet64" => json!({
            "cls": "EDMPrecond", "model_type": "DhariwalUNet", "img_resolution": 64, "img_channels": 3, "label_dim": 1000,
        }),
        _ => return Err(Error::unknown_name("architecture", name, PUBLISHED.iter().map(|(n, _)| n))),
    };
    let Value::Object(map) = options else {
        return Err(Error::malformed(Path::new(name), Malformed::Missing { name: "cls".into() }));
    };
    Config::from_map(&map).map_err(|problem| Error::malformed(Path::new(name), problem))
}

fn song(mut options: Value) -> Value {
    options["cls"] = "EDMPrecond".into();
    options["model_type"] = "SongUNet".into();
    options["img_channels"] = 3.into();
    options["augment_dim"] = 9.into();
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::Edm;

    #[test]
    fn plans_have_the_published_sizes() {
        let sizes = [
            ("edm-cifar10", 55_733_891, 425),
            ("edm-cifar10-ncsnpp", 56_397_827, 432),
            ("edm-ffhq", 61_805_571, 553),
            ("edm-imagenet64", 295_899_267, 553),
        ];
        for (name, parameters, tensors) in sizes {
            let config = published(name).unwrap();
            let found = (Edm::parameters(&config).unwrap(), Edm::plan(&config).unwrap().len());
            assert_eq!(found, (parameters, tensors), "{name}");
        }
        assert!(published("edm-cifar").is_err());
    }
}
