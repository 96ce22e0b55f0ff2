//! Kernel distance of features (Bińkowski et al. 2018): the squared maximum mean discrepancy with a cubic kernel.
//!
//! ```text
//! k(x, y) = (x·y/d + 1)³
//! KID = Σ_{i≠j} k(xᵢ,xⱼ)/(n(n−1)) + Σ_{i≠j} k(yᵢ,yⱼ)/(m(m−1)) − 2·Σ k(xᵢ,yⱼ)/(nm)
//! ```
//!
//! Unbiased at any n and m; it may be negative where the two are alike. The field takes the mean over 100 random
//! subsets of 1000 and its scatter, which overlap each other: their scatter is not the error of the mean, and depends
//! on how many one draws. Here all pairs count once, and the error is the jackknife's over both sets, from the row sums
//! of the kernel; it errs on the large side (Efron and Stein 1981).
//!
//! Kernels are computed block by block: memory grows with n, not n².

use super::{Estimate, Features};
use crate::linalg::products;
use dyweight_core::error::{Error, Result};
use rayon::prelude::*;

/// Rows of a block. Its size is part of the order of summation.
const BLOCK: usize = 512;

/// The distance of two sets of features; the count is that of the first.
pub fn kid(x: &Features, y: &Features) -> Result<Estimate> {
    x.require_like(y)?;
    for set in [x, y] {
        if set.len() < 3 {
            let expected = "the kernel distance needs three images or more on each side";
            return Err(Error::bad_value("num", set.len(), expected));
        }
    }
    let (xx, yy) = (within(x), within(y));
    let (xy, yx) = across(x, y);
    let (n, m) = (x.len() as f64, y.len() as f64);
    let sum = |rows: &[f64]| rows.iter().sum::<f64>();
    let [a, b, c] = [sum(&xx), sum(&yy), sum(&xy)];
    let own = |total: f64, count: f64| total / (count * (count - 1.0));
    let value = own(a, n) + own(b, m) - 2.0 * c / (n * m);
    let without_x = |i: usize| own(a - 2.0 * xx[i], n - 1.0) - 2.0 * (c - xy[i]) / ((n - 1.0) * m);
    let without_y = |j: usize| own(b - 2.0 * yy[j], m - 1.0) - 2.0 * (c - yx[j]) / (n * (m - 1.0));
    let variance = jackknife(x.len(), without_x) + jackknife(y.len(), without_y);
    Ok(Estimate::new(value, variance.sqrt(), x.len()))
}

/// (n−1)/n · Σ (θ₋ᵢ − mean)².
fn jackknife(count: usize, without: impl Fn(usize) -> f64) -> f64 {
    let values: Vec<f64> = (0..count).map(without).collect();
    let n = count as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() * (n - 1.0) / n
}

/// Σⱼ k(xᵢ, xⱼ) without j = i, for each i.
fn within(x: &Features) -> Vec<f64> {
    let parts: Vec<Sums> = blocks(x).into_par_iter().map(|from| sums(x, x, from, true)).collect();
    gather(x.len(), x.len(), parts, true).0
}

/// Σⱼ k(xᵢ, yⱼ) for each i, and Σᵢ for each j.
fn across(x: &Features, y: &Features) -> (Vec<f64>, Vec<f64>) {
    let parts: Vec<Sums> = blocks(x).into_par_iter().map(|from| sums(x, y, from, false)).collect();
    gather(x.len(), y.len(), parts, false)
}

fn blocks(x: &Features) -> Vec<usize> {
    (0..x.len()).step_by(BLOCK).collect()
}

/// Sums of a block of rows: each row's, and what it adds to each column.
struct Sums {
    from: usize,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

/// Of rows `from..` of x against y; of a set with itself, what stands right of the diagonal only.
fn sums(x: &Features, y: &Features, from: usize, same: bool) -> Sums {
    let dims = x.dims();
    let block = |set: &Features, at: usize| at * dims..(at + BLOCK).min(set.len()) * dims;
    let own = &x.rows()[block(x, from)];
    let mut rows = vec![0.0; own.len() / dims];
    let mut columns = vec![0.0; y.len()];
    for start in (if same { from } else { 0 }..y.len()).step_by(BLOCK) {
        let inner = products(own, &y.rows()[block(y, start)], dims);
        for (i, row) in rows.iter_mut().enumerate() {
            let skip = if same && start == from { i + 1 } else { 0 };
            for (j, product) in inner.column(i).iter().enumerate().skip(skip) {
                let kernel = (product / dims as f64 + 1.0).powi(3);
                *row += kernel;
                columns[start + j] += kernel;
            }
        }
    }
    Sums { from, rows, columns }
}

/// Adds blocks in their order.
fn gather(n: usize, m: usize, parts: Vec<Sums>, same: bool) -> (Vec<f64>, Vec<f64>) {
    let (mut rows, mut columns) = (vec![0.0; n], vec![0.0; m]);
    for part in parts {
        rows[part.from..part.from + part.rows.len()].copy_from_slice(&part.rows);
        columns.iter_mut().zip(&part.columns).for_each(|(c, p)| *c += p);
    }
    if same {
        rows.iter_mut().zip(&columns).for_each(|(r, c)| *r += c);
    }
    (rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    fn set(seed: u64, count: usize, dims: usize, shift: f64) -> Features {
        let z = Rng::Native.latents(&[seed], [1, count, dims]).unwrap();
        Features::from_rows(dims, z.data().iter().map(|v| (v + shift) as f32).collect()).unwrap()
    }

    fn direct(x: &Features, y: &Features) -> f64 {
        let d = x.dims();
        let row = |s: &Features, i: usize| s.rows()[i * d..(i + 1) * d].to_vec();
        let k = |a: Vec<f32>, b: Vec<f32>| {
            let dot: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (dot / d as f64 + 1.0).powi(3)
        };
        let (n, m) = (x.len(), y.len());
        let own = |s: &Features, n: usize| {
            let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
            pairs.map(|(i, j)| k(row(s, i), row(s, j))).sum::<f64>() / (n * (n - 1)) as f64
        };
        let pairs = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        own(x, n) + own(y, m) - 2.0 * pairs.map(|(i, j)| k(row(x, i), row(y, j))).sum::<f64>() / (n * m) as f64
    }

    #[test]
    fn blocks_add_up_to_the_definition() {
        let (x, y) = (set(1, BLOCK + 30, 5, 0.0), set(2, 90, 5, 0.3));
        assert!((kid(&x, &y).unwrap().value - direct(&x, &y)).abs() < 1e-12);
        assert!(kid(&x, &set(1, 9, 4, 0.0)).is_err() && kid(&x, &set(1, 2, 5, 0.0)).is_err());
    }

    #[test]
    fn unbiased_and_the_error_is_that_of_repeated_draws() {
        for shift in [0.0, 0.4] {
            let draws: Vec<Estimate> =
                (0..300).map(|s| kid(&set(2 * s, 40, 6, 0.0), &set(2 * s + 1, 50, 6, shift)).unwrap()).collect();
            let values: Vec<f64> = draws.iter().map(|e| e.value).collect();
            let mean = Estimate::mean(&values);
            let spread = mean.error * (values.len() as f64).sqrt();
            let claimed = draws.iter().map(|e| e.error).sum::<f64>() / draws.len() as f64;
            assert!((0.9..1.6).contains(&(claimed / spread)), "{shift}: {claimed} {spread}");
            if shift == 0.0 {
                assert!(mean.value.abs() < 3.0 * mean.error, "{mean}");
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let (x, y) = (set(1, 2 * BLOCK + 7, 5, 0.0), set(2, BLOCK + 1, 5, 0.3));
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| kid(&x, &y).unwrap())
        };
        assert_eq!(on(1), on(3));
    }
}
