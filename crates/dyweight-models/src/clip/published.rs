//! Sizes of released models, for measuring them without their weights.

use super::config::{ClipConfig, StackConfig, TextConfig, VisionConfig};
use dyweight_core::error::{Error, Result};
use dyweight_nn::Gelu;

/// Name; vision width, inside, layers, heads, patch; text width, inside, layers, heads; features; whether OpenAI's.
type Row = (&'static str, [usize; 5], [usize; 4], usize, bool);

const MODELS: [Row; 6] = [
    ("vit-b-32", [768, 3072, 12, 12, 32], [512, 2048, 12, 8], 512, true),
    ("vit-b-16", [768, 3072, 12, 12, 16], [512, 2048, 12, 8], 512, true),
    ("vit-l-14", [1024, 4096, 24, 16, 14], [768, 3072, 12, 12], 768, true),
    ("vit-h-14", [1280, 5120, 32, 16, 14], [1024, 4096, 24, 16], 1024, false),
    ("vit-g-14", [1408, 6144, 40, 16, 14], [1024, 4096, 24, 16], 1024, false),
    ("vit-bigg-14", [1664, 8192, 48, 16, 14], [1280, 5120, 32, 20], 1280, false),
];

const SIZE: usize = 224;

impl ClipConfig {
    /// A released model by its name.
    pub fn published(name: &str) -> Result<Self> {
        let row = MODELS
            .iter()
            .find(|row| row.0 == name)
            .ok_or_else(|| Error::unknown_name("CLIP model", name, MODELS.iter().map(|row| row.0)))?;
        let (_, [width, hidden, layers, heads, patch], text, features, openai) = *row;
        let gelu = if openai { Gelu::Quick } else { Gelu::Exact };
        let stack = StackConfig { width, hidden, layers, heads, gelu, eps: 1e-5 };
        let vision = VisionConfig { stack, size: SIZE, patch, channels: 3 };
        let [width, hidden, layers, heads] = text;
        let stack = StackConfig { width, hidden, layers, heads, gelu, eps: 1e-5 };
        Ok(Self { text: TextConfig { stack, vocabulary: 49408, positions: 77, end: None }, vision, features })
    }

    /// How it is called: `ViT-L/14`, or by its width where that is nobody's.
    pub fn label(&self) -> String {
        let VisionConfig { stack, patch, size, .. } = &self.vision;
        let named = MODELS.iter().find(|row| row.1[..3] == [stack.width, stack.hidden, stack.layers]);
        let letter = named.and_then(|row| row.0.split('-').nth(1)).map(|letter| match letter {
            "bigg" => "bigG".into(),
            "g" => "g".into(),
            other => other.to_uppercase(),
        });
        let letter = letter.unwrap_or_else(|| format!("{}x{}", stack.width, stack.layers));
        let at = if *size == SIZE { String::new() } else { format!("@{size}") };
        format!("ViT-{letter}/{patch}{at}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::Clip;

    /// Counts of the released models.
    #[test]
    fn parameters_are_those_of_the_released_models() -> Result<()> {
        let counts = [151_277_313, 149_620_737, 427_616_513, 986_109_441, 1_366_678_273, 2_539_567_105];
        for (row, expected) in MODELS.iter().zip(counts) {
            let config = ClipConfig::published(row.0)?;
            let plan = Clip::plan(&config)?;
            let count: usize = plan.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
            // The temperature is not used.
            assert_eq!(count + 1, expected, "{}", row.0);
        }
        assert_eq!(ClipConfig::published("vit-bigg-14")?.label(), "ViT-bigG/14");
        assert!(ClipConfig::published("vit-l14").is_err());
        Ok(())
    }
}
