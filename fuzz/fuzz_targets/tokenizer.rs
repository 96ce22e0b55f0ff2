//! Tokenizers of CLIP, T5 and BERT, opened from their files and asked for a text. The first byte says which; the files
//! of one that has two stand behind each other, with a zero byte between.
#![no_main]

use dyweight::models::blip::WordPiece;
use dyweight::models::clip::Tokenizer;
use dyweight::models::t5::UnigramTokenizer;
use dyweight_fuzz::{bounded, place, shown};
use libfuzzer_sys::fuzz_target;

const TEXT: &str = "a photo of a Café's cat, 3 dogs <extra_id_0> <|endoftext|> \u{1f600}";

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let folder = place();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("the file can be written");
    match kind % 4 {
        0 => {
            let at = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            write("vocab.json", &rest[..at]);
            write("merges.txt", rest.get(at + 1..).unwrap_or_default());
            bounded(data, || {
                let Some(tokenizer) = shown(Tokenizer::read(&folder)) else { return };
                assert!(shown(tokenizer.cut(TEXT, 16)).is_none_or(|(ids, _)| ids.len() <= 16));
            });
        }
        kind @ (1 | 2) => {
            let (used, other) = if kind == 1 { ("tokenizer.json", "spiece.model") } else { ("spiece.model", "tokenizer.json") };
            let _ = std::fs::remove_file(folder.join(other));
            write(used, rest);
            bounded(data, || {
                let Some(tokenizer) = shown(UnigramTokenizer::read(&folder)) else { return };
                assert!(shown(tokenizer.cut(TEXT, 16)).is_none_or(|(ids, _)| ids.len() <= 16));
            });
        }
        _ => {
            write("vocab.txt", rest);
            bounded(data, || {
                let Some(tokenizer) = shown(WordPiece::read(&folder.join("vocab.txt"))) else { return };
                assert!(shown(tokenizer.cut(TEXT, 16)).is_none_or(|(ids, _)| ids.len() <= 16));
            });
        }
    }
});
