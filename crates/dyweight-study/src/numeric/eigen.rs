//! Eigenvalues and right eigenvectors of a small real matrix.
//!
//! Householder reduction to Hessenberg form, Francis' implicit double-shift QR for the eigenvalues (Golub and Van
//! Loan, Matrix Computations, 4th ed., algorithms 7.4.2 and 7.5.1), inverse iteration on the Hessenberg form for the
//! vectors:
//!
//! ```text
//! A = Q·H·Qᵀ,   (H − λI)·x = b,   v = Q·x
//! ```
//!
//! The project's shared eigen-solver (`dyweight-metrics`) is for symmetric matrices; couplings are not symmetric.
//! Written here because the study needs it for matrices of order 50 only, where 150 lines without blocking are fast
//! enough, and because its results then have the same bits on every machine, as the study's records promise.

/// A square matrix, row by row.
#[derive(Clone, Debug)]
pub(super) struct Square {
    pub(super) n: usize,
    pub(super) data: Vec<f64>,
}

impl Square {
    pub(super) fn zeros(n: usize) -> Self {
        Self { n, data: vec![0.0; n * n] }
    }

    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.data[row * self.n + column]
    }

    pub(super) fn set(&mut self, row: usize, column: usize, value: f64) {
        self.data[row * self.n + column] = value;
    }

    /// Largest sum of sizes in a row.
    fn norm(&self) -> f64 {
        self.data.chunks(self.n).map(|row| row.iter().map(|v| v.abs()).sum()).fold(0.0, f64::max)
    }

    /// Rows `at..` of columns `columns` times I − β·v·vᵀ from the left.
    fn reflect_rows(&mut self, at: usize, mirror: &Mirror, columns: std::ops::Range<usize>) {
        for column in columns {
            let dot: f64 = mirror.v.iter().enumerate().map(|(i, v)| v * self.at(at + i, column)).sum();
            for (i, v) in mirror.v.iter().enumerate() {
                self.data[(at + i) * self.n + column] -= mirror.beta * dot * v;
            }
        }
    }

    /// Columns `at..` of rows `rows` times I − β·v·vᵀ from the right.
    fn reflect_columns(&mut self, at: usize, mirror: &Mirror, rows: std::ops::Range<usize>) {
        for row in rows {
            let line = &mut self.data[row * self.n + at..][..mirror.v.len()];
            let dot: f64 = mirror.v.iter().zip(&*line).map(|(v, x)| v * x).sum();
            line.iter_mut().zip(&mirror.v).for_each(|(x, v)| *x -= mirror.beta * dot * v);
        }
    }
}

/// A complex number, as (re, im).
pub(super) type Complex = (f64, f64);

/// An eigenvalue and its vector. Of a conjugate pair only the one with positive imaginary part is kept.
pub(super) struct Mode {
    pub(super) value: Complex,
    pub(super) vector: Vec<Complex>,
}

/// All modes, or `None` if the iteration did not settle (not seen in practice).
pub(super) fn modes(a: &Square) -> Option<Vec<Mode>> {
    let (h, q) = hessenberg(a);
    let mut values = eigenvalues(h.clone())?;
    values.retain(|v| v.1 >= 0.0);
    let vector = |value: Complex| {
        let x = null_vector(&h, value);
        let row = |i: usize| &q.data[i * a.n..(i + 1) * a.n];
        let dot = |i: usize, part: fn(&Complex) -> f64| row(i).iter().zip(&x).map(|(q, x)| q * part(x)).sum();
        (0..a.n).map(|i| (dot(i, |x| x.0), dot(i, |x| x.1))).collect()
    };
    Some(values.into_iter().map(|value| Mode { value, vector: vector(value) }).collect())
}

/// The Householder reflection I − β·v·vᵀ that sends a vector to a multiple of the first axis.
struct Mirror {
    v: Vec<f64>,
    beta: f64,
}

impl Mirror {
    fn of(x: &[f64]) -> Self {
        let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        let mut v = x.to_vec();
        v[0] += if x[0] < 0.0 { -norm } else { norm };
        let square: f64 = v.iter().map(|v| v * v).sum();
        Self { v, beta: if square > 0.0 { 2.0 / square } else { 0.0 } }
    }
}

fn hessenberg(a: &Square) -> (Square, Square) {
    let n = a.n;
    let (mut h, mut q) = (a.clone(), Square::zeros(n));
    (0..n).for_each(|i| q.set(i, i, 1.0));
    for k in 0..n.saturating_sub(2) {
        let mirror = Mirror::of(&(k + 1..n).map(|i| h.at(i, k)).collect::<Vec<_>>());
        h.reflect_rows(k + 1, &mirror, k..n);
        h.reflect_columns(k + 1, &mirror, 0..n);
        q.reflect_columns(k + 1, &mirror, 0..n);
        (k + 2..n).for_each(|i| h.set(i, k, 0.0));
    }
    (h, q)
}

fn eigenvalues(mut h: Square) -> Option<Vec<Complex>> {
    let tiny = f64::EPSILON * h.norm();
    let (mut values, mut end, mut tries) = (Vec::new(), h.n, 0);
    while end > 0 {
        let split = |i: &usize| {
            h.at(*i, i - 1).abs() <= tiny.max(f64::EPSILON * (h.at(i - 1, i - 1).abs() + h.at(*i, *i).abs()))
        };
        let start = (1..end).rev().find(split).unwrap_or(0);
        match end - start {
            1 => values.push((h.at(start, start), 0.0)),
            2 => values.extend(pair(&h, start)),
            _ if tries == 90 => return None,
            _ => {
                tries += 1;
                let shifts = shifts(&h, start, end, tries);
                francis(&mut h, start, end, shifts);
                continue;
            }
        }
        (end, tries) = (start, 0);
    }
    Some(values)
}

/// Eigenvalues of the 2 x 2 block at `i`.
fn pair(h: &Square, i: usize) -> [Complex; 2] {
    let (a, b, c, d) = (h.at(i, i), h.at(i, i + 1), h.at(i + 1, i), h.at(i + 1, i + 1));
    let (mean, half) = ((a + d) / 2.0, (a - d) / 2.0);
    let square = half * half + b * c;
    if square < 0.0 {
        return [(mean, (-square).sqrt()), (mean, -(-square).sqrt())];
    }
    // The larger root first, the other from the determinant: no cancellation.
    let large = mean + if mean < 0.0 { -square.sqrt() } else { square.sqrt() };
    [(large, 0.0), (if large == 0.0 { 0.0 } else { (a * d - b * c) / large }, 0.0)]
}

/// Sum and product of the two shifts.
///
/// Two deviations from the textbook, both from LAPACK's `dlahqr`: of two real shifts the one nearer to the corner is
/// taken twice, and every tenth step shifts by numbers of no meaning, near one end or the other. Without them about
/// one random matrix in 10⁴ goes round in circles.
fn shifts(h: &Square, start: usize, end: usize, tries: usize) -> (f64, f64) {
    let (m, l) = (end - 2, end - 1);
    if tries.is_multiple_of(10) {
        let (corner, size) = match tries / 10 % 2 {
            0 => (h.at(start, start), h.at(start + 1, start).abs() + h.at(start + 2, start + 1).abs()),
            _ => (h.at(l, l), h.at(l, m).abs() + h.at(m, m - 1).abs()),
        };
        let centre = corner + 0.75 * size;
        return (2.0 * centre, centre * centre + 0.4375 * size * size);
    }
    let [one, two] = pair(h, m);
    if one.1 != 0.0 {
        return (2.0 * one.0, one.0 * one.0 + one.1 * one.1);
    }
    let corner = h.at(l, l);
    let near = if (one.0 - corner).abs() < (two.0 - corner).abs() { one.0 } else { two.0 };
    (2.0 * near, near * near)
}

/// One double-shift step on rows and columns `start..end`, at least three of them.
fn francis(h: &mut Square, start: usize, end: usize, (s, t): (f64, f64)) {
    let (a, b) = (start, start + 1);
    let mut bulge = vec![
        h.at(a, a) * h.at(a, a) + h.at(a, b) * h.at(b, a) - s * h.at(a, a) + t,
        h.at(b, a) * (h.at(a, a) + h.at(b, b) - s),
        h.at(b, a) * h.at(b + 1, b),
    ];
    for k in start..end - 1 {
        let mirror = Mirror::of(&bulge);
        h.reflect_rows(k, &mirror, k.saturating_sub(1).max(start)..end);
        h.reflect_columns(k, &mirror, start..end.min(k + bulge.len() + 1));
        bulge = (k + 1..end.min(k + 4)).map(|i| h.at(i, k)).collect();
    }
}

/// A vector that H − λI nearly annihilates, by two steps of inverse iteration.
fn null_vector(h: &Square, value: Complex) -> Vec<Complex> {
    // Off by rounding, so that the matrix can be inverted at all.
    let near = (value.0 + f64::EPSILON * h.norm().max(f64::MIN_POSITIVE), value.1);
    let mut x = vec![(1.0, 0.0); h.n];
    for _ in 0..2 {
        x = solve_hessenberg(h, near, x);
        let norm = x.iter().map(|v| v.0 * v.0 + v.1 * v.1).sum::<f64>().sqrt();
        x.iter_mut().for_each(|v| *v = (v.0 / norm, v.1 / norm));
    }
    x
}

/// (H − λI)⁻¹·b, eliminating the subdiagonal with row exchanges.
fn solve_hessenberg(h: &Square, value: Complex, mut b: Vec<Complex>) -> Vec<Complex> {
    let n = h.n;
    let shifted = |i: usize, j: usize| if i == j { sub((h.at(i, j), 0.0), value) } else { (h.at(i, j), 0.0) };
    let mut rows: Vec<Vec<Complex>> = (0..n).map(|i| (0..n).map(|j| shifted(i, j)).collect()).collect();
    for k in 0..n - 1 {
        if size(rows[k + 1][k]) > size(rows[k][k]) {
            rows.swap(k, k + 1);
            b.swap(k, k + 1);
        }
        let factor = div(rows[k + 1][k], rows[k][k]);
        let (above, below) = rows.split_at_mut(k + 1);
        below[0][k..].iter_mut().zip(&above[k][k..]).for_each(|(x, p)| *x = sub(*x, mul(factor, *p)));
        b[k + 1] = sub(b[k + 1], mul(factor, b[k]));
    }
    for i in (0..n).rev() {
        let rest = (i + 1..n).fold(b[i], |sum, j| sub(sum, mul(rows[i][j], b[j])));
        b[i] = div(rest, rows[i][i]);
    }
    b
}

fn sub(a: Complex, b: Complex) -> Complex {
    (a.0 - b.0, a.1 - b.1)
}

fn mul(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn size(a: Complex) -> f64 {
    a.0.abs() + a.1.abs()
}

/// a / b; a divisor of zero is taken as the smallest number, which inverse iteration survives.
fn div(a: Complex, b: Complex) -> Complex {
    let b = if size(b) < 1e-150 { (1e-150, 0.0) } else { b };
    let square = b.0 * b.0 + b.1 * b.1;
    ((a.0 * b.0 + a.1 * b.1) / square, (a.1 * b.0 - a.0 * b.1) / square)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;

    fn residual(a: &Square, mode: &Mode) -> f64 {
        let image = |i: usize| {
            (0..a.n).fold((0.0, 0.0), |s: Complex, j| {
                (s.0 + a.at(i, j) * mode.vector[j].0, s.1 + a.at(i, j) * mode.vector[j].1)
            })
        };
        (0..a.n).map(|i| size(sub(image(i), mul(mode.value, mode.vector[i])))).fold(0.0, f64::max)
    }

    #[test]
    fn random_matrices_are_diagonalised() {
        for n in [1, 2, 3, 4, 7, 20, 50, 80] {
            for seed in 0..10 {
                let mut stream = Stream::new(seed + 1000 * n as u64);
                let a = Square { n, data: (0..n * n).map(|_| stream.normal()).collect() };
                let modes = modes(&a).unwrap();
                let count: usize = modes.iter().map(|m| if m.value.1 > 0.0 { 2 } else { 1 }).sum();
                assert_eq!(count, n);
                let trace: f64 = (0..n).map(|i| a.at(i, i)).sum();
                let sum: f64 = modes.iter().map(|m| if m.value.1 > 0.0 { 2.0 * m.value.0 } else { m.value.0 }).sum();
                assert!((trace - sum).abs() < 1e-9, "{n}: {trace} {sum}");
                let worst = modes.iter().map(|m| residual(&a, m)).fold(0.0, f64::max);
                assert!(worst < 1e-11 * n as f64, "{n}: {worst}");
            }
        }
    }

    #[test]
    fn a_rotation_has_its_angle() {
        let a = Square { n: 2, data: vec![0.6, -0.8, 0.8, 0.6] };
        let modes = modes(&a).unwrap();
        assert_eq!(modes.len(), 1);
        assert!((modes[0].value.0 - 0.6).abs() < 1e-15 && (modes[0].value.1 - 0.8).abs() < 1e-15);
    }

    #[test]
    fn special_matrices_settle() {
        let n = 6;
        let mut cycle = Square::zeros(n);
        (0..n).for_each(|i| cycle.set((i + 1) % n, i, 1.0)); // defeats unshifted QR
        let modes = modes(&cycle).unwrap();
        assert!(modes.iter().all(|m| (m.value.0.hypot(m.value.1) - 1.0).abs() < 1e-12));
    }

    /// Two of 20 000 random couplings sent the usual shifts round in circles.
    #[test]
    fn cycles_of_the_usual_shifts_are_broken() {
        for seed in [11741, 12464] {
            let mut stream = Stream::of_words(&[9, seed]);
            let mut a = Square { n: 50, data: (0..2500).map(|_| 0.1 / 50f64.sqrt() * stream.normal()).collect() };
            (0..50).for_each(|i| a.set(i, i, a.at(i, i) - 0.5));
            let modes = modes(&a).unwrap();
            assert!(modes.iter().all(|m| residual(&a, m) < 1e-12));
        }
    }
}
