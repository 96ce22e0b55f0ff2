//! The unigram language model of pieces (Kudo 2018): the segmentation whose pieces have the largest summed logarithm of
//! probability, by Viterbi's algorithm.
//!
//! A character no piece covers is unknown, at a price below every piece's; unknown characters in a row are one token.

use std::collections::HashMap;

/// How much less likely an unknown character is than the least likely piece.
const PENALTY: f64 = 10.0;

/// Pieces with their numbers and scores.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    of: HashMap<String, (u32, f64)>,
    /// Bytes of the longest.
    longest: usize,
    unknown: u32,
    unknown_score: f64,
}

impl Pieces {
    /// Those that may be used, each with its number and score, and the number that stands for anything else.
    pub(super) fn new(pieces: impl Iterator<Item = (String, u32, f64)>, unknown: u32) -> Self {
        let mut of = HashMap::new();
        for (piece, id, score) in pieces.filter(|(piece, ..)| !piece.is_empty()) {
            of.entry(piece).or_insert((id, score));
        }
        let longest = of.keys().map(String::len).max().unwrap_or(0);
        let least = of.values().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        let unknown_score = if least.is_finite() { least - PENALTY } else { -PENALTY };
        Self { of, longest, unknown, unknown_score }
    }

    /// The number of a piece.
    pub(super) fn id(&self, piece: &str) -> Option<u32> {
        self.of.get(piece).map(|(id, _)| *id)
    }

    /// The tokens of a text.
    pub(super) fn segment(&self, text: &str, ids: &mut Vec<u32>) {
        /// The best way to a place: its score, where its last token begins, and which that is; none if unknown.
        #[derive(Clone, Copy)]
        struct Best {
            score: f64,
            from: usize,
            id: Option<u32>,
        }
        let mut best: Vec<Option<Best>> = vec![None; text.len() + 1];
        best[0] = Some(Best { score: 0.0, from: 0, id: None });
        for (start, first) in text.char_indices() {
            let Some(so_far) = best[start].map(|best| best.score) else { continue };
            let mut offer = |end: usize, score: f64, id: Option<u32>| {
                let score = so_far + score;
                if best[end].is_none_or(|best| score > best.score) {
                    best[end] = Some(Best { score, from: start, id });
                }
            };
            let single = start + first.len_utf8();
            let mut covered = false;
            let ends = text[start..].char_indices().map(|(at, c)| start + at + c.len_utf8());
            for end in ends.take_while(|end| end - start <= self.longest) {
                if let Some((id, score)) = self.of.get(&text[start..end]) {
                    offer(end, *score, Some(*id));
                    covered |= end == single;
                }
            }
            if !covered {
                offer(single, self.unknown_score, None);
            }
        }
        let (mut end, mut found) = (text.len(), Vec::new());
        while let Some(Best { from, id, .. }) = best[end].filter(|_| end > 0) {
            found.push(id);
            end = from;
        }
        found.reverse();
        found.dedup_by(|a, b| a.is_none() && b.is_none());
        ids.extend(found.iter().map(|id| id.unwrap_or(self.unknown)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<u32> {
        let pieces = [("a", -1.0), ("b", -1.5), ("ab", -2.0), ("abc", -9.0), ("c", -2.0), ("é", -3.0)];
        let pieces = pieces.iter().enumerate().map(|(i, (piece, score))| (piece.to_string(), i as u32, *score));
        let mut ids = Vec::new();
        Pieces::new(pieces, 99).segment(text, &mut ids);
        ids
    }

    #[test]
    fn the_likeliest_segmentation_is_found() {
        assert_eq!(tokens("abc"), [2, 4]);
        assert_eq!(tokens("ba"), [1, 0]);
        assert_eq!(tokens("aéa"), [0, 5, 0]);
        assert_eq!(tokens(""), [] as [u32; 0]);
    }

    #[test]
    fn unknown_characters_in_a_row_are_one() {
        assert_eq!(tokens("xyéz漢"), [99, 5, 99]);
    }
}
