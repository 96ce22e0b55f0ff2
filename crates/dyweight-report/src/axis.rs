//! Axes: what range to show, where to put ticks, how to write their numbers.
//!
//! Linear ticks step by 1, 2 or 5 times a power of ten; logarithmic ones sit on powers of ten, with 2 and 5 between
//! them where the range is short. Logarithms come from `libm`, so that layouts agree between platforms.

/// How values map to lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences take equal room.
    Linear,
    /// Equal ratios take equal room; values ≤ 0 are not shown.
    Log,
}

/// An axis as asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// How values map to lengths.
    pub scale: Scale,
    /// Ends; the data's, with a margin, if not given.
    pub range: Option<(f64, f64)>,
    /// Where ticks must be; found by rule if not given.
    pub ticks: Option<Vec<f64>>,
}

impl Axis {
    /// Equal differences take equal room.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None, ticks: None }
    }

    /// Equal ratios take equal room.
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// With these ends.
    pub fn range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// With ticks at these values.
    pub fn ticks(self, values: &[f64]) -> Self {
        Self { ticks: Some(values.to_vec()), ..self }
    }

    /// Fits the axis to the data and to the room: about `wanted` ticks.
    pub(super) fn place(&self, values: impl Iterator<Item = f64>, wanted: usize) -> PlacedAxis {
        // Beyond 10¹⁵⁰ differences overflow; such values do not stretch the axis.
        let usable = |v: &f64| v.abs() < 1e150 && (self.scale == Scale::Linear || *v > 0.0);
        let ends = values.filter(usable).fold(None, |ends: Option<(f64, f64)>, v| match ends {
            Some((low, high)) => Some((low.min(v), high.max(v))),
            None => Some((v, v)),
        });
        let given = self.range.filter(|(low, high)| usable(low) && usable(high) && low < high);
        let (low, high) = given.unwrap_or_else(|| self.widened(ends.unwrap_or((1.0, 1.0))));
        let mut axis = PlacedAxis { scale: self.scale, low, high, ticks: Vec::new(), minor: Vec::new() };
        match (&self.ticks, self.scale) {
            (Some(values), _) => {
                let shown = values.iter().filter(|v| axis.shows(**v));
                axis.ticks = shown.map(|v| (*v, plain(*v))).collect();
            }
            (None, Scale::Linear) => axis.ticks = linear_ticks(low, high, wanted),
            (None, Scale::Log) => axis.log_ticks(wanted),
        }
        axis
    }

    /// Room around the data: 4 % on each side, or something sensible around a single value.
    fn widened(&self, (low, high): (f64, f64)) -> (f64, f64) {
        match self.scale {
            Scale::Linear if low == high => (low - low.abs().max(1.0) / 2.0, high + high.abs().max(1.0) / 2.0),
            Scale::Linear => (low - 0.04 * (high - low), high + 0.04 * (high - low)),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            Scale::Log => {
                let room = libm::pow(10.0, 0.04 * (libm::log10(high) - libm::log10(low)));
                ((low / room).max(f64::MIN_POSITIVE), (high * room).min(f64::MAX))
            }
        }
    }
}

/// An axis with its range and ticks decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedAxis {
    scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Values and labels.
    pub(super) ticks: Vec<(f64, String)>,
    /// Values of unlabelled ticks.
    pub(super) minor: Vec<f64>,
}

impl PlacedAxis {
    /// Where a value falls: 0 at the low end, 1 at the high end, NaN if the scale has no place for it.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value > 0.0 => {
                let low = libm::log10(self.low);
                (libm::log10(value) - low) / (libm::log10(self.high) - low)
            }
            Scale::Log => f64::NAN,
        }
    }

    fn shows(&self, value: f64) -> bool {
        // The slack keeps a tick that rounding pushed over the end.
        (-1e-9..=1.0 + 1e-9).contains(&self.fraction(value))
    }

    fn log_ticks(&mut self, wanted: usize) {
        let (first, last) = (libm::log10(self.low).floor() as i32, libm::log10(self.high).ceil() as i32);
        let decades: Vec<i32> = (first..=last).filter(|d| self.shows(power(*d))).collect();
        if decades.len() >= 2 {
            let stride = decades.len().div_ceil(wanted.max(2)) as i32;
            let labelled = |d: &&i32| **d % stride == 0;
            self.ticks =
                decades.iter().filter(labelled).map(|d| (power(*d), format!("10{}", superscript(*d)))).collect();
            let steps: &[f64] = if stride == 1 { &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0] } else { &[1.0] };
            let all = (first..=last).flat_map(|d| steps.iter().map(move |s| s * power(d)));
            self.minor = all.filter(|v| self.shows(*v)).collect();
            return;
        }
        let multiples = |steps: &'static [f64]| {
            (first..=last).flat_map(move |d| steps.iter().map(move |s| s * power(d))).filter(|v| self.shows(*v))
        };
        let nice: Vec<(f64, String)> = multiples(&[1.0, 2.0, 5.0]).map(|v| (v, plain(v))).collect();
        let minor = multiples(&[3.0, 4.0, 6.0, 7.0, 8.0, 9.0]).collect();
        (self.ticks, self.minor) = match nice.len() {
            0 | 1 => (linear_ticks(self.low, self.high, wanted), Vec::new()),
            _ => (nice, minor),
        };
    }
}

fn power(exponent: i32) -> f64 {
    libm::pow(10.0, f64::from(exponent))
}

/// Multiples of 1, 2 or 5 times a power of ten; about `wanted` of them, never more than twice that.
fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / wanted.max(1) as f64;
    let decade = power(libm::log10(rough).floor() as i32);
    let step = decade * [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * decade >= rough * 0.999).unwrap_or(10.0);
    if !step.is_finite() || step <= 0.0 {
        return Vec::new();
    }
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = (last - first).clamp(0.0, 2.0 * wanted as f64) as usize;
    let decimals = (-libm::log10(step * 1.001).floor()).max(0.0) as usize;
    let wide = low.abs().max(high.abs()) >= 1e5 || decimals > 4;
    let label = |v: f64| if wide { scientific(v) } else { signed(&format!("{v:.decimals$}")) };
    (0..=count).map(|i| (first + i as f64) * step).map(|v| (v, label(v))).collect()
}

/// A number as short as it can be written.
pub(super) fn plain(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) { scientific(value) } else { signed(&format!("{value}")) }
}

/// A number rounded to four significant digits, with its error (in the error's digits) if there is one.
pub(super) fn brief(value: f64, error: Option<f64>) -> String {
    measured(value, error.as_slice())
}

/// A number with its errors, all in the digits of the first.
pub(super) fn measured(value: f64, errors: &[f64]) -> String {
    let rounded = |v: f64, text: String| plain(text.parse().unwrap_or(v));
    let Some(first) = errors.first().copied().filter(|e| e.is_finite() && *e > 0.0) else {
        return rounded(value, format!("{value:.3e}"));
    };
    let is_plain = value.abs().max(first) >= 1e-3 && value.abs() < 1e5;
    let digits = (1.0 - libm::log10(first).floor()).clamp(0.0, 9.0) as usize;
    let shown = if is_plain { signed(&format!("{value:.digits$}")) } else { scientific(value) };
    let error = |e: &f64| if is_plain { format!("{e:.digits$}") } else { rounded(*e, format!("{e:.1e}")) };
    std::iter::once(shown).chain(errors.iter().map(error)).collect::<Vec<_>>().join(" ± ")
}

/// How much more or less something is, in percent: `+12`, `−3`, and `0` for what rounds to nothing.
pub fn change(percent: f64, decimals: usize) -> String {
    let shown = signed(&format!("{percent:.decimals$}"));
    let is_zero = shown.chars().all(|c| matches!(c, '0' | '.'));
    if is_zero || percent < 0.0 { shown } else { format!("+{shown}") }
}

/// A name before a number, if it has one.
pub(super) fn named(name: &str, number: &str) -> String {
    if name.is_empty() { number.into() } else { format!("{name} {number}") }
}

/// With a true minus sign, and without a sign for zero.
pub(super) fn signed(digits: &str) -> String {
    match digits.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.into(),
        Some(rest) => format!("−{rest}"),
        None => digits.into(),
    }
}

/// `2×10⁻⁵`, `10³`, `1.5×10⁶`.
pub(super) fn scientific(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return signed(&format!("{value}"));
    }
    let written = format!("{value:.2e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let digits = signed(digits.trim_end_matches('0').trim_end_matches('.'));
    let ten = format!("10{}", superscript(exponent.parse().unwrap_or(0)));
    match digits.as_str() {
        "1" => ten,
        "−1" => format!("−{ten}"),
        _ => format!("{digits}×{ten}"),
    }
}

fn superscript(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |c: char| c.to_digit(10).map_or('⁻', |d| DIGITS[d as usize]);
    exponent.to_string().chars().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.place(values.iter().copied(), 5).ticks.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(labels(&Axis::linear(""), &[0.0, 1.0]), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::linear("").range(-1.0, 1.0), &[]), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::linear(""), &[3.0, 21.0]), ["5", "10", "15", "20"]);
        assert_eq!(labels(&Axis::linear("").range(0.0, 3e6), &[]), ["0", "10⁶", "2×10⁶", "3×10⁶"]);
    }

    #[test]
    fn log_ticks_are_powers_or_their_multiples() {
        assert_eq!(labels(&Axis::log(""), &[1e-4, 1.0]), ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]);
        assert_eq!(labels(&Axis::log(""), &[1.0, 9.0]), ["1", "2", "5"]);
        assert_eq!(labels(&Axis::log(""), &[0.0, -1.0, 3.0, 4.5]), ["3.0", "3.5", "4.0", "4.5"]);
        assert!(labels(&Axis::log(""), &[1e-30, 1.0]).len() <= 6);
    }

    #[test]
    fn odd_data_gets_an_axis() {
        for values in [&[][..], &[f64::NAN], &[7.0], &[0.0], &[-3.0, f64::INFINITY], &[1e-300, 1e300]] {
            for axis in [Axis::linear(""), Axis::log("")] {
                let placed = axis.place(values.iter().copied(), 5);
                assert!(placed.low < placed.high && placed.ticks.len() < 20, "{values:?} {placed:?}");
            }
        }
        assert!(Axis::log("").place([1.0].into_iter(), 5).fraction(-1.0).is_nan());
    }

    #[test]
    fn numbers_have_the_digits_that_count_and_no_sign_of_nothing() {
        assert_eq!(measured(0.12345, &[0.0012, 0.02]), "0.1235 ± 0.0012 ± 0.0200");
        assert_eq!(measured(8.7525e-4, &[1.2e-5, 8.75254662e-3]), "8.75×10⁻⁴ ± 1.2×10⁻⁵ ± 0.0088");
        assert_eq!(measured(0.12345, &[0.0]), "0.1235");
        assert_eq!([0.3, -0.3, 12.4, -1.6].map(|p| change(p, 0)), ["0", "0", "+12", "−2"]);
        assert_eq!([0.02, -0.26].map(|p| change(p, 1)), ["0.0", "−0.3"]);
    }

    #[test]
    fn asked_ticks_are_kept_where_they_fit() {
        let axis = Axis::linear("").range(0.0, 10.0).ticks(&[0.0, 5.0, 10.0, 15.0]);
        assert_eq!(labels(&axis, &[]), ["0", "5", "10"]);
    }
}
