//! Lists of seeds: `0-63`, `7`, `0-3,10,20-29`.

use dyweight_core::error::{Error, Result};
use std::ops::RangeInclusive;

/// Seeds in the order given, each once, kept as ranges: a million seeds cost nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<RangeInclusive<u64>>);

/// More samples than anyone makes in one run; guards against a typing error that would fill the disk.
const MOST: u64 = 100_000_000;

impl Seeds {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |expected: &str| Error::bad_value("seeds", text, expected);
        let mut ranges = Vec::new();
        let mut total = 0u64;
        for part in text.split(',') {
            let (low, high) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            let number = |s: &str| s.trim().parse::<u64>().map_err(|_| bad("expected a list such as 0-63 or 1,2,5-9"));
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(bad("a range must not run backwards"));
            }
            total = total.saturating_add((high - low).saturating_add(1));
            ranges.push(low..=high);
        }
        if total > MOST {
            return Err(bad("more than 100 million seeds"));
        }
        if let Some(seed) = repeated(&ranges) {
            // The same noise twice is the same sample twice: means would be no better for it, but their errors would
            // look so.
            return Err(bad(&format!("seed {seed} is named more than once")));
        }
        Ok(Self(ranges))
    }

    /// Number of seeds.
    pub fn len(&self) -> usize {
        self.0.iter().map(|r| (r.end() - r.start() + 1) as usize).sum()
    }

    /// True if there are none, which a parsed list never is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().cloned().flatten()
    }
}

/// A seed that two ranges share.
fn repeated(ranges: &[RangeInclusive<u64>]) -> Option<u64> {
    let mut sorted: Vec<&RangeInclusive<u64>> = ranges.iter().collect();
    sorted.sort_by_key(|range| *range.start());
    sorted.windows(2).find(|pair| pair[1].start() <= pair[0].end()).map(|pair| *pair[1].start())
}

impl std::fmt::Display for Seeds {
    /// In the form [`Seeds::parse`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let seeds = Seeds::parse("0-3, 10,20-21").unwrap();
        assert_eq!(seeds.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 10, 20, 21]);
        assert_eq!(seeds.len(), 7);
        assert_eq!(seeds.to_string(), "0-3,10,20-21");
        for bad in
            ["", "a", "3-1", "-1", "1-", "0-99999999999", "1,,2", "18446744073709551616", "3,3", "5-9,0-99", "0-9,4"]
        {
            assert!(Seeds::parse(bad).is_err(), "{bad}");
        }
        let message = Seeds::parse("7,0-3,2-5").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("seed 2 is named more than once"), "{message}");
    }
}
