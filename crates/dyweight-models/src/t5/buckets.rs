//! Distances between tokens, told apart exactly when small and logarithmically when large.
//!
//! ```text
//! δ = j − i:   bucket = (δ > 0 ? B : 0) + β(|δ|),   B = buckets/2,  e = B/2
//! β(r) = r for r < e,  else min(B − 1, e + ⌊(B − e)·ln(r/e)/ln(farthest/e)⌋)
//! ```
//!
//! The reference forms the logarithms in f32; so do we, for distances at which they are whole.

/// The bucket of a distance from query to key.
pub(super) fn bucket(distance: isize, buckets: usize, farthest: usize) -> usize {
    let (half, r) = (buckets / 2, distance.unsigned_abs());
    let exact = half / 2;
    let after = if distance > 0 { half } else { 0 };
    if r < exact {
        return after + r;
    }
    let (r, e) = (r as f32, exact as f32);
    let steps = libm::logf(r / e) / libm::log((farthest as f64) / f64::from(e)) as f32 * (half - exact) as f32;
    after + (exact + steps as usize).min(half - 1)
}

/// `[heads, tokens, tokens]` from a table `[buckets, heads]`.
pub(super) fn biases(table: &[f32], heads: usize, tokens: usize, farthest: usize) -> Vec<f32> {
    let buckets = table.len() / heads;
    let first = 1 - tokens as isize;
    let of: Vec<usize> = (first..tokens as isize).map(|d| bucket(d, buckets, farthest)).collect();
    let row = |head: usize, i: usize| {
        let start = tokens - 1 - i;
        of[start..start + tokens].iter().map(move |bucket| table[bucket * heads + head])
    };
    (0..heads).flat_map(|head| (0..tokens).flat_map(move |i| row(head, i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Distances at which the next bucket begins, for 32 buckets up to distance 128: checked against the reference up to
    // 700.
    #[test]
    fn buckets_of_the_reference() {
        let starts = [8, 12, 16, 23, 32, 46, 64, 91, usize::MAX];
        for r in 0..=700usize {
            let expected = if r < 8 { r } else { 7 + starts.iter().filter(|start| **start <= r).count() };
            assert_eq!(bucket(-(r as isize), 32, 128), expected, "{r} before");
            assert_eq!(bucket(r as isize, 32, 128), if r == 0 { 0 } else { 16 + expected }, "{r} after");
        }
    }

    #[test]
    fn a_row_has_the_distances_from_its_query() {
        let table: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let all = biases(&table, 2, 3, 128);
        // Head 1, query 1: distances −1, 0, 1.
        assert_eq!(all[9 + 3..9 + 6], [2.0 + 1.0, 1.0, 2.0 * 17.0 + 1.0]);
    }
}
