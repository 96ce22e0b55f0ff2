//! PyTorch's CPU generator, bit for bit.
//!
//! A 32-bit Mersenne twister (Matsumoto and Nishimura 1998). Two code paths make normals:
//!
//! * fewer than 16: one at a time, Box–Muller in f64 on 53-bit uniforms, the sine half kept for the next call;
//! * 16 or more: all uniforms first (24 bits each), then blocks of 16 in place, eight radii and eight angles:
//!   `z[j] = r(1−u[j])·cos 2πu[j+8]`, `z[j+8] = r(1−u[j])·sin 2πu[j+8]`, `r(u) = √(−2 ln u)`, in f32 with the
//!   Cephes polynomials for logarithm, sine and cosine (Moshier; the constants are the published single-precision
//!   coefficients). If the size is no multiple of 16, the last 16 entries are drawn anew and overwrite the tail.

/// `torch.Generator(device="cpu")`.
pub struct TorchGenerator {
    twister: Twister,
    spare: Option<f64>,
}

impl TorchGenerator {
    /// `torch.Generator().manual_seed(seed)`; the twister takes the seed's low 32 bits.
    pub fn new(seed: u64) -> Self {
        Self { twister: Twister::new(seed as u32), spare: None }
    }

    /// `torch.randn(n, generator=self)`.
    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        if n < 16 {
            return (0..n).map(|_| self.scalar_normal() as f32).collect();
        }
        let mut data: Vec<f32> = (0..n).map(|_| self.uniform24()).collect();
        for block in data.chunks_exact_mut(16) {
            normal_block(block);
        }
        if !n.is_multiple_of(16) {
            let tail = &mut data[n - 16..];
            tail.iter_mut().for_each(|v| *v = self.uniform24());
            normal_block(tail);
        }
        data
    }

    /// `torch.randint(bound, [], generator=self)` for a bound below 2³².
    pub fn below(&mut self, bound: u32) -> u32 {
        self.twister.next() % bound
    }

    fn uniform24(&mut self) -> f32 {
        (self.twister.next() & 0x00FF_FFFF) as f32 * (1.0 / 16_777_216.0)
    }

    fn uniform53(&mut self) -> f64 {
        let high = u64::from(self.twister.next());
        let bits = (high << 32) | u64::from(self.twister.next());
        (bits & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    fn scalar_normal(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        let (u1, u2) = (self.uniform53(), self.uniform53());
        let radius = (-2.0 * libm::log1p(-u2)).sqrt();
        let angle = std::f64::consts::TAU * u1;
        self.spare = Some(radius * libm::sin(angle));
        radius * libm::cos(angle)
    }
}

fn normal_block(block: &mut [f32]) {
    for j in 0..8 {
        let radius = (-2.0 * log(1.0 - block[j])).sqrt();
        let (sin, cos) = sin_cos(std::f32::consts::TAU * block[j + 8]);
        block[j] = radius * cos;
        block[j + 8] = radius * sin;
    }
}

/// a·b + c with one rounding, as the compiled original contracts it.
fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// Cephes `logf` for a normal x > 0.
#[allow(clippy::excessive_precision)] // as published
fn log(x: f32) -> f32 {
    const P: [f32; 9] = [
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ];
    let x = x.max(f32::MIN_POSITIVE);
    let bits = x.to_bits();
    let mut exponent = ((bits >> 23) as i32 - 126) as f32;
    let mut m = f32::from_bits((bits & 0x007F_FFFF) | 0.5f32.to_bits());
    if m < std::f32::consts::FRAC_1_SQRT_2 {
        exponent -= 1.0;
        m += m - 1.0;
    } else {
        m -= 1.0;
    }
    let z = m * m;
    let mut y = P[0];
    for p in &P[1..] {
        y = fma(y, m, *p);
    }
    y = fma(y * m, z, exponent * -2.12194440e-4);
    y = fma(z, -0.5, y);
    fma(exponent, 0.693359375, m + y)
}

#[allow(clippy::excessive_precision)] // as published
/// Cephes `sinf` and `cosf` for 0 ≤ x ≤ 2π.
fn sin_cos(x: f32) -> (f32, f32) {
    let octant = ((x * 1.27323954473516) as i32 + 1) & !1;
    let y = octant as f32;
    let r = fma(y, -3.77489497744594108e-8, fma(y, -2.4187564849853515625e-4, fma(y, -0.78515625, x)));
    let z = r * r;
    let mut cos = fma(2.443315711809948e-5, z, -1.388731625493765e-3);
    cos = fma(cos, z, 4.166664568298827e-2) * z;
    cos = fma(cos, z, -0.5 * z) + 1.0;
    let mut sin = fma(-1.9515295891e-4, z, 8.3321608736e-3);
    sin = fma(sin, z, -1.6666654611e-1) * z;
    sin = fma(sin, r, r);
    let (sine, cosine) = if octant & 2 == 0 { (sin, cos) } else { (cos, sin) };
    let sine = if octant & 4 != 0 { -sine } else { sine };
    let cosine = if (octant - 2) & 4 == 0 { -cosine } else { cosine };
    (sine, cosine)
}

/// The 32-bit Mersenne twister MT19937.
struct Twister {
    state: [u32; 624],
    index: usize,
}

impl Twister {
    fn new(seed: u32) -> Self {
        let mut state = [seed; 624];
        for i in 1..624 {
            let last = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { state, index: 624 }
    }

    fn next(&mut self) -> u32 {
        if self.index == 624 {
            self.twist();
        }
        let mut y = self.state[self.index];
        self.index += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C_5680;
        y ^= (y << 15) & 0xEFC6_0000;
        y ^ (y >> 18)
    }

    fn twist(&mut self) {
        for i in 0..624 {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7FFF_FFFF);
            let odd = if y & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
        }
        self.index = 0;
    }
}
