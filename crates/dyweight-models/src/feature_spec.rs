//! Feature networks by name or file.

use crate::fashion_judge::FashionJudge;
use crate::features::FashionFeatures;
use crate::inception::{Inception, Resize};
use crate::joined::JoinedFeatures;
use crate::pixels::Pixels;
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_core::option;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

const FASHION: &str = "fashion";
const JUDGE: &str = "fashion-judge";
const PIXELS: &str = "pixels";

/// What a user says about features of images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FeatureSpec {
    /// `fashion`, `fashion-judge`, `pixels` or `inception`; left out, Inception where its weights are given, else
    /// `fashion`.
    pub features: Option<String>,
    /// Weights of Inception-v3.
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: `edm` or `pytorch-fid`.
    pub resize: Option<String>,
}

impl FeatureSpec {
    /// The map for images of a shape: of several names, their features one behind the other.
    pub fn build(&self, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
        Ok(JoinedFeatures::of(self.each().iter().map(|one| one.build_one(shape)).collect::<Result<_>>()?))
    }

    fn build_one(&self, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
        match self.name() {
            "inception" => self.inception(shape),
            name => {
                let map = embedded(name)?;
                self.refuse_inception_options()?;
                fitting(map, shape)
            }
        }
    }

    /// Each of several that are named with commas between them.
    pub fn each(&self) -> Vec<Self> {
        let names: Vec<&str> = self.name().split(',').map(str::trim).collect();
        let only = |name: &str| {
            // What is said of Inception is not said of those beside it.
            let own = Self { features: Some(name.into()), ..Self::default() };
            let is_meant = name == "inception" || !names.contains(&"inception");
            if is_meant { Self { features: own.features, ..self.clone() } } else { own }
        };
        names.iter().map(|name| only(name)).collect()
    }

    /// The map that judges what was trained on this one: the first embedded network that is no part of it, where it
    /// fits the shape; else there is no other, and it is this one.
    pub fn judge(&self, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
        let own = self.each();
        let other = [JUDGE, FASHION].into_iter().find(|name| own.iter().all(|one| one.name() != *name));
        let map = other.map(embedded).transpose()?.filter(|map| map.shape() == shape);
        map.map_or_else(|| self.build(shape), Ok)
    }

    /// True of what is built in.
    pub fn is_embedded(&self) -> bool {
        self.each().iter().all(|one| [FASHION, JUDGE, PIXELS].contains(&one.name()))
    }

    fn name(&self) -> &str {
        self.features.as_deref().unwrap_or(if self.inception.is_some() { "inception" } else { FASHION })
    }

    fn inception(&self, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
        let resize = self.resize.as_deref().map(Resize::named).transpose()?.unwrap_or_default();
        let path = self.inception.as_ref().ok_or_else(|| {
            Error::conflict(
                "features of Inception-v3 need its weights",
                "give them with `inception`; docs/inception.md says where they are to be had",
            )
        })?;
        Ok(Arc::new(Inception::open(path, shape, resize)?))
    }

    /// An option that would change nothing is a misunderstanding.
    fn refuse_inception_options(&self) -> Result<()> {
        let given = [("inception", self.inception.is_some()), ("resize", self.resize.is_some())];
        option::refuse(&given, |name| Error::needs(name, "features = inception"))
    }
}

/// A network built in.
fn embedded(name: &str) -> Result<Arc<dyn FeatureMap>> {
    match name {
        FASHION => Ok(Arc::new(FashionFeatures::embedded()?)),
        JUDGE => Ok(Arc::new(FashionJudge::embedded()?)),
        PIXELS => Ok(Arc::new(Pixels)),
        other => Err(Error::unknown_name("feature network", other, [FASHION, JUDGE, PIXELS, "inception"])),
    }
}

fn fitting(map: Arc<dyn FeatureMap>, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
    if map.shape() == shape {
        return Ok(map);
    }
    let [c, h, w] = shape;
    Err(Error::conflict(
        format!("the embedded feature networks take 1x28x28 images, not {c}x{h}x{w}"),
        "use features of Inception-v3 (weights with `inception`), or do without features",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(spec: FeatureSpec, shape: [usize; 3]) -> String {
        spec.build(shape).err().and_then(|e| e.hint()).unwrap_or_default()
    }

    #[test]
    fn what_is_missing_or_of_no_use_is_said() {
        let named = |name: &str| FeatureSpec { features: Some(name.into()), ..Default::default() };
        assert!(hint(named("inception"), [3, 32, 32]).contains("`inception`"));
        assert!(hint(named("inceptoin"), [3, 32, 32]).contains("did you mean 'inception'"));
        assert!(hint(FeatureSpec::default(), [3, 32, 32]).contains("`inception`"));
        let ruled = |name: &str, rule: &str| FeatureSpec { resize: Some(rule.into()), ..named(name) };
        assert!(hint(ruled("fashion", "edm"), [1, 28, 28]).contains("leave `resize` out"));
        assert!(hint(ruled("inception", "pytorchfid"), [1, 28, 28]).contains("did you mean 'pytorch-fid'"));
        assert!(named("fashion").build([1, 28, 28]).is_ok());
    }

    #[test]
    fn the_judge_is_another_network_wherever_there_is_one() {
        let named = |name: Option<&str>| FeatureSpec { features: name.map(String::from), ..Default::default() };
        for (own, judge) in
            [(None, "fashion-judge"), (Some("fashion"), "fashion-judge"), (Some("fashion-judge"), "fashion-features")]
        {
            let (spec, shape) = (named(own), [1, 28, 28]);
            assert_eq!(spec.judge(shape).unwrap().name(), judge);
            assert_ne!(spec.judge(shape).unwrap().sha256(), spec.build(shape).unwrap().sha256());
        }
        // No embedded network looks at colours, and Inception's weights are not at hand.
        assert!(named(Some("inception")).judge([3, 32, 32]).is_err());
    }
}
