//! Byte-pair encoding of one word.
//!
//! Merging every occurrence of the lowest-ranked adjacent pair, from left to right, again and again, is the same as
//! taking the lowest-ranked, leftmost pair each time: a merged symbol takes part only in pairs of higher rank. A heap
//! of pairs then makes a word of n symbols n·log n steps of work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Ranks of pairs of symbols.
pub(super) type Ranks = HashMap<(String, String), u32>;

struct Node {
    symbol: String,
    /// Neighbours; a node without text has been merged into the one before.
    before: Option<usize>,
    after: Option<usize>,
}

/// The symbols that are left when no adjacent pair is ranked.
pub(super) fn merged(symbols: Vec<String>, ranks: &Ranks) -> Vec<String> {
    let last = symbols.len().saturating_sub(1);
    let node =
        |(i, symbol): (usize, String)| Node { symbol, before: i.checked_sub(1), after: (i < last).then_some(i + 1) };
    let mut nodes: Vec<Node> = symbols.into_iter().enumerate().map(node).collect();
    let mut heap = BinaryHeap::new();
    let pair = |nodes: &[Node], left: usize| {
        let right = nodes[left].after?;
        let key = (nodes[left].symbol.clone(), nodes[right].symbol.clone());
        // Lengths tell later whether the pair is still there: symbols only grow.
        ranks.get(&key).map(|rank| Reverse((*rank, left, key.0.len(), key.1.len())))
    };
    heap.extend((0..nodes.len()).filter_map(|left| pair(&nodes, left)));
    while let Some(Reverse((_, left, left_len, right_len))) = heap.pop() {
        let Some(right) = nodes[left].after else { continue };
        if nodes[left].symbol.len() != left_len || nodes[right].symbol.len() != right_len {
            continue;
        }
        let symbol = std::mem::take(&mut nodes[right].symbol);
        nodes[left].symbol.push_str(&symbol);
        let after = nodes[right].after.take();
        nodes[left].after = after;
        if let Some(after) = after {
            nodes[after].before = Some(left);
        }
        heap.extend(pair(&nodes, left));
        if let Some(before) = nodes[left].before {
            heap.extend(pair(&nodes, before));
        }
    }
    nodes.into_iter().map(|node| node.symbol).filter(|symbol| !symbol.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule as it is written down.
    fn plainly(mut symbols: Vec<String>, ranks: &Ranks) -> Vec<String> {
        loop {
            let ranked = symbols.windows(2).filter_map(|w| ranks.get(&(w[0].clone(), w[1].clone())));
            let Some(best) = ranked.min().copied() else { return symbols };
            let mut out: Vec<String> = Vec::new();
            let mut rest = symbols.into_iter().peekable();
            while let Some(mut symbol) = rest.next() {
                let is_best = |next: &String| ranks.get(&(symbol.clone(), next.clone())) == Some(&best);
                if let Some(next) = rest.next_if(is_best) {
                    symbol.push_str(&next);
                }
                out.push(symbol);
            }
            symbols = out;
        }
    }

    #[test]
    fn the_heap_merges_like_the_rule() {
        let pairs = ["a a", "a b", "aa aa", "b a", "ab ab", "c ab", "aaaa b", "ab a", "b b", "aa b"];
        let split = |p: &str| p.split_once(' ').map(|(l, r)| (l.to_string(), r.to_string())).unwrap();
        let ranks: Ranks = pairs.iter().enumerate().map(|(i, p)| (split(p), i as u32)).collect();
        let mut state = 1u64;
        for len in (1..40).cycle().take(2000) {
            let mut letter = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ["a", "a", "b", "c"][(state >> 62) as usize].to_string()
            };
            let word: Vec<String> = (0..len).map(|_| letter()).collect();
            assert_eq!(merged(word.clone(), &ranks), plainly(word.clone(), &ranks), "{word:?}");
        }
        assert!(merged(Vec::new(), &ranks).is_empty());
    }
}
