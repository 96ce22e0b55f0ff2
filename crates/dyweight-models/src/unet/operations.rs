//! Multiplications and additions of a call, counted as plain sums need them, from the configuration alone.
//!
//! ```text
//! Res           2p·9·(in·out + out²), and 2p·in·out where there is a shortcut          p pixels
//! transformer   4p·c² + depth·(2p·c²·(4 + 2 + 12) + 4·tokens·context·c + 4p·c·(p + tokens))
//! attention     8p·c² + 4p²·c
//! ```
//!
//! The time vector is small and left out. Winograd makes fewer of them.

use super::config::UnetConfig;

impl UnetConfig {
    /// For one sample of so many rows and columns and a context of `tokens`.
    pub(crate) fn operations(&self, [h, w]: [usize; 2], tokens: usize) -> f64 {
        let pixels = |level: usize| ((h >> level) * (w >> level)) as f64;
        let widths: Vec<f64> = self.widths.iter().map(|width| *width as f64).collect();
        let last = widths.len() - 1;
        let conv = |level: usize, inputs: f64, outputs: f64| 18.0 * pixels(level) * inputs * outputs;
        let block = |level: usize, inputs: f64, attends: bool| {
            let (p, width) = (pixels(level), widths[level]);
            let shortcut = if inputs == width { 0.0 } else { 2.0 * p * inputs * width };
            let mixed = if attends { self.mixing(level, p, tokens as f64) } else { 0.0 };
            conv(level, inputs, width) + conv(level, width, width) + shortcut + mixed
        };
        let mut sum = conv(0, self.inputs as f64, widths[0]) + conv(0, widths[0], self.outputs as f64);
        let (mut channels, mut skips) = (widths[0], vec![widths[0]]);
        for (level, width) in widths.iter().enumerate() {
            for _ in 0..self.layers {
                sum += block(level, channels, self.down_attends[level]);
                channels = *width;
                skips.push(channels);
            }
            if level < last {
                sum += conv(level + 1, channels, channels);
                skips.push(channels);
            }
        }
        sum += block(last, channels, true) + block(last, channels, false);
        for (i, attends) in self.up_attends.iter().enumerate() {
            let level = last - i;
            for _ in 0..=self.layers {
                sum += block(level, channels + skips.pop().unwrap_or(0.0), *attends);
                channels = widths[level];
            }
            if level > 0 {
                sum += conv(level - 1, channels, channels);
            }
        }
        sum
    }

    /// Of a spatial transformer, or of plain attention.
    fn mixing(&self, level: usize, p: f64, tokens: f64) -> f64 {
        let (c, depth) = (self.widths[level] as f64, self.depths[level] as f64);
        let Some(context) = self.context else { return 8.0 * p * c * c + 4.0 * p * p * c };
        let block = 36.0 * p * c * c + 4.0 * tokens * context as f64 * c + 4.0 * p * c * (p + tokens);
        4.0 * p * c * c + depth * block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_stable_diffusion_takes_what_is_published() {
        // 401.637 billion multiply-adds, by PyTorch's counter on diffusers' network, the time vector included.
        let operations = UnetConfig::sd15().operations([64, 64], 77);
        assert!((operations / 2.0 / 401.637e9 - 1.0).abs() < 1e-4, "{operations:e}");
    }
}
