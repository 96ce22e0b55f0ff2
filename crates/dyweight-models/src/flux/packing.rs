//! Latents as tokens: four neighbouring pixels make one, and it knows where it is.
//!
//! ```text
//! token (h/2)·(W/2) + w/2,  entry 4c + 2·(h mod 2) + (w mod 2)
//!                                                                        position (0, h/2, w/2); (0, 0, 0) of a text's
//! ```

use dyweight_nn::{Act, Shape};

/// Numbers that say where a token is.
pub(crate) const AXES: usize = 3;

/// Latents `[n, h, w, c]` of even height and width as tokens `[n, 1, hw/4, 4c]`.
pub(crate) fn pack(latents: &Act) -> Act {
    let Shape { n, h, w, c } = latents.shape();
    let mut tokens = Act::zeros(Shape::tokens(n, h * w / 4, 4 * c));
    let data = tokens.data_mut();
    exchange(latents.shape(), |token, pixel| data[token] = latents.data()[pixel]);
    tokens
}

/// Tokens as latents of this size: [`pack`]'s inverse, and its gradient.
pub(crate) fn unpack(tokens: &Act, [h, w]: [usize; 2]) -> Act {
    let Shape { n, c, .. } = tokens.shape();
    let mut latents = Act::zeros(Shape { n, h, w, c: c / 4 });
    let shape = latents.shape();
    let data = latents.data_mut();
    exchange(shape, |token, pixel| data[pixel] = tokens.data()[token]);
    latents
}

/// Calls `f` with the place of each number among the tokens and among the latents.
fn exchange(Shape { n, h, w, c }: Shape, mut f: impl FnMut(usize, usize)) {
    for (sample, row, column) in (0..n).flat_map(|s| (0..h).flat_map(move |r| (0..w).map(move |x| (s, r, x)))) {
        let token = (sample * (h / 2) + row / 2) * (w / 2) + column / 2;
        let (to, from) = (token * 4 * c + 2 * (row % 2) + column % 2, ((sample * h + row) * w + column) * c);
        (0..c).for_each(|channel| f(to + 4 * channel, from + channel));
    }
}

/// Positions of `texts` text tokens and of the image tokens of latents of this size.
pub(crate) fn positions(texts: usize, [h, w]: [usize; 2]) -> Vec<f64> {
    let image = (0..h / 2).flat_map(|row| (0..w / 2).flat_map(move |column| [0.0, row as f64, column as f64]));
    std::iter::repeat_n(0.0, AXES * texts).chain(image).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_square_of_four() {
        let shape = Shape { n: 2, h: 4, w: 6, c: 3 };
        let numbers: Vec<f32> = (0..shape.len()).map(|i| i as f32).collect();
        let latents = Act::from_nhwc(shape, &numbers);
        let tokens = pack(&latents);
        let pixel = |s: usize, r: usize, x: usize, c: usize| latents.data()[((s * 4 + r) * 6 + x) * 3 + c];
        // Sample 1, row 3, column 4, channel 2: the token of row 1, column 2.
        assert_eq!(tokens.data()[(6 + 3 + 2) * 12 + 4 * 2 + 2], pixel(1, 3, 4, 2));
        assert_eq!(unpack(&tokens, [4, 6]).data(), latents.data());
        assert_eq!(positions(1, [4, 6])[3 * (1 + 3 + 2)..], [0.0, 1.0, 2.0]);
    }
}
