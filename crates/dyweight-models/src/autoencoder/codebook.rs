//! The codebook of a VQ autoencoder (van den Oord et al. 2017): `argmin_j ‖f‖² + ‖e_j‖² − 2⟨f, e_j⟩`, the first of
//! equals.

use dyweight_nn::Act;

/// Vectors latents are rounded to.
pub(super) struct Codebook {
    width: usize,
    entries: Vec<f32>,
    squares: Vec<f32>,
}

impl Codebook {
    pub(super) fn new(width: usize, entries: Vec<f32>) -> Self {
        let squares = entries.chunks_exact(width).map(|e| e.iter().map(|v| v * v).sum()).collect();
        Self { width, entries, squares }
    }

    /// Each pixel's nearest entry, and its number.
    pub(super) fn nearest(&self, z: &Act) -> (Act, Vec<usize>) {
        let mut rounded = Act::stale(z.shape());
        let pixels = z.data().chunks_exact(self.width).zip(rounded.data_mut().chunks_exact_mut(self.width));
        let indices = pixels.map(|(pixel, to)| {
            let index = self.index(pixel);
            to.copy_from_slice(&self.entries[index * self.width..][..self.width]);
            index
        });
        let indices = indices.collect();
        (rounded, indices)
    }

    fn index(&self, pixel: &[f32]) -> usize {
        let own: f32 = pixel.iter().map(|v| v * v).sum();
        let (mut best, mut least) = (0, f32::INFINITY);
        for (j, entry) in self.entries.chunks_exact(self.width).enumerate() {
            let product: f32 = pixel.iter().zip(entry).map(|(a, b)| a * b).sum();
            let distance = own + self.squares[j] - 2.0 * product;
            if distance < least {
                (best, least) = (j, distance);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_is_taken() {
        let codebook = Codebook::new(2, vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
        let z = Act::from_rows(2, &[0.1, 0.8, 0.9, 0.3]);
        let (rounded, indices) = codebook.nearest(&z);
        assert_eq!(indices, [1, 0]);
        assert_eq!(rounded.data(), [0.0, 1.0, 1.0, 0.0]);
    }
}
