//! What the files of a model say about its pictures.

use super::Preprocess;
use crate::edm::kwargs::Kwargs;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

const LARGEST: usize = 1 << 14;
/// PIL's number for bicubic.
const BICUBIC: usize = 3;

impl Preprocess {
    /// Takes sizes and colours from a `preprocessor_config.json` of transformers.
    pub(crate) fn follow_transformers(&mut self, map: &Map<String, Value>) -> Result<(), Malformed> {
        let options = Kwargs(map);
        let steps = ["do_resize", "do_center_crop", "do_rescale", "do_normalize"];
        if let Some(step) = steps.into_iter().find(|step| map.get(*step) == Some(&Value::Bool(false))) {
            return Err(unsupported(format!("leaves out '{step}'")));
        }
        if let Some(other) = options.count("resample", LARGEST)?.filter(|r| *r != BICUBIC) {
            return Err(unsupported(format!("resamples by rule {other}, not bicubically ({BICUBIC})")));
        }
        if let Some(factor) = options.number("rescale_factor")?.filter(|f| (f * 255.0 - 1.0).abs() > 1e-6) {
            return Err(unsupported(format!("scales colours by {factor}, not by 1/255")));
        }
        let shorter = match map.get("size") {
            Some(Value::Object(size)) => match Kwargs(size).count("shortest_edge", LARGEST)? {
                Some(shorter) => Some(shorter),
                None => return Err(unsupported("names no 'shortest_edge' in 'size'".into())),
            },
            _ => options.count("size", LARGEST)?,
        };
        let cut = match map.get("crop_size") {
            Some(Value::Object(size)) => {
                let (h, w) = (Kwargs(size).count("height", LARGEST)?, Kwargs(size).count("width", LARGEST)?);
                if h != w {
                    return Err(unsupported(format!("cuts {h:?} by {w:?} pixels, not a square")));
                }
                h
            }
            _ => options.count("crop_size", LARGEST)?,
        };
        self.shorter = shorter.unwrap_or(self.size);
        if self.shorter < self.size || cut.is_some_and(|cut| cut != self.size) {
            let (shorter, cut) = (self.shorter, cut.unwrap_or(self.size));
            return Err(unsupported(format!(
                "resizes to {shorter} and cuts {cut} pixels; the tower takes {}",
                self.size
            )));
        }
        self.colours(&options, ["image_mean", "image_std"])
    }

    /// Takes colours from the `preprocess_cfg` of OpenCLIP.
    pub(crate) fn follow_open_clip(&mut self, map: &Map<String, Value>) -> Result<(), Malformed> {
        for (name, usual) in [("interpolation", "bicubic"), ("resize_mode", "shortest")] {
            let odd = map.get(name).and_then(Value::as_str).filter(|found| *found != usual);
            if let Some(odd) = odd {
                return Err(unsupported(format!("has {name} '{odd}', not '{usual}'")));
            }
        }
        self.colours(&Kwargs(map), ["mean", "std"])
    }

    fn colours(&mut self, options: &Kwargs<'_>, [mean, deviation]: [&str; 2]) -> Result<(), Malformed> {
        for (name, to) in [(mean, &mut self.mean), (deviation, &mut self.deviation)] {
            if let Some(found) = options.numbers(name, 3)? {
                let colours = <[f64; 3]>::try_from(found);
                *to = colours.map_err(|found| unsupported(format!("has {} numbers in {name}, not 3", found.len())))?;
            }
        }
        match self.deviation.iter().all(|d| *d > 0.0) {
            true => Ok(()),
            false => Err(unsupported(format!("divides colours by {:?}", self.deviation))),
        }
    }
}

fn unsupported(what: String) -> Malformed {
    Malformed::Inconsistent { problem: format!("the preprocessing it describes is not supported: it {what}") }
}

#[cfg(test)]
mod tests {
    use super::super::{Crop, Resampling};
    use super::*;
    use serde_json::json;

    fn follow(config: Value) -> Result<Preprocess, Malformed> {
        let mut preprocess = Preprocess::new(Resampling::Pil, Crop::Floor, 32);
        preprocess.follow_transformers(config.as_object().unwrap())?;
        Ok(preprocess)
    }

    #[test]
    fn old_and_new_ways_to_say_a_size() {
        assert_eq!(follow(json!({ "size": 40, "crop_size": 32 })).unwrap().shorter, 40);
        let new = json!({ "size": { "shortest_edge": 36 }, "crop_size": { "height": 32, "width": 32 }, "image_std": [1, 2, 3] });
        let new = follow(new).unwrap();
        assert_eq!((new.shorter, new.deviation), (36, [1.0, 2.0, 3.0]));
    }

    #[test]
    fn what_would_be_other_pixels_is_refused() {
        for config in [
            json!({ "size": 16 }),
            json!({ "crop_size": 48 }),
            json!({ "resample": 2 }),
            json!({ "do_resize": false }),
            json!({ "size": { "height": 32, "width": 32 } }),
            json!({ "image_std": [0, 1, 1] }),
            json!({ "image_mean": [0, 1] }),
            json!({ "rescale_factor": 1.0 }),
        ] {
            assert!(follow(config.clone()).is_err(), "{config}");
        }
        let mut preprocess = Preprocess::new(Resampling::Pil, Crop::Floor, 32);
        let squash = json!({ "resize_mode": "squash" });
        assert!(preprocess.follow_open_clip(squash.as_object().unwrap()).is_err());
    }
}
