//! `spiece.model`: what is needed of SentencePiece's protocol buffer.
//!
//! ```text
//! ModelProto       1: SentencePiece, repeated    3: NormalizerSpec
//! SentencePiece    1: piece   2: score (f32)
//!                                           3: type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte)
//! NormalizerSpec   2: precompiled_charsmap
//! a field          varint number·8 + kind, kind 0 varint, 1 eight bytes, 2 varint length and bytes, 5 four bytes
//! ```

use dyweight_files::Malformed;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    /// Never in a text, like the end of it.
    Control,
    /// Always taken whole.
    UserDefined,
    Other,
}

/// A piece of the file.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f64,
    pub(super) kind: Kind,
}

/// A field's value.
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Four([u8; 4]),
    Eight,
}

/// Pieces in the order of their numbers, and the compiled normalisation map.
pub(super) fn parse(bytes: &[u8]) -> Result<(Vec<Piece>, Vec<u8>), Malformed> {
    let (mut pieces, mut map) = (Vec::new(), Vec::new());
    each_field(bytes, |field| {
        match field {
            (1, Value::Bytes(inner)) => pieces.push(piece(inner)?),
            (3, Value::Bytes(inner)) => each_field(inner, |field| {
                if let (2, Value::Bytes(found)) = field {
                    map = found.to_vec();
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    if pieces.is_empty() {
        return Err(wrong("holds no pieces: it is no SentencePiece model"));
    }
    Ok((pieces, map))
}

fn piece(bytes: &[u8]) -> Result<Piece, Malformed> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    each_field(bytes, |field| {
        match field {
            (1, Value::Bytes(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| wrong("has a piece that is not text"))?;
                piece.text = text.into();
            }
            (2, Value::Four(score)) => piece.score = f32::from_le_bytes(score).into(),
            (3, Value::Number(kind)) => {
                piece.kind = match kind {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    _ => Kind::Other,
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    if !piece.score.is_finite() {
        return Err(wrong("has a piece without a finite score"));
    }
    Ok(piece)
}

fn each_field<'b>(
    mut bytes: &'b [u8],
    mut f: impl FnMut((u64, Value<'b>)) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => {
                take(&mut bytes, 8)?;
                Value::Eight
            }
            2 => {
                let len = varint(&mut bytes)?;
                Value::Bytes(take(&mut bytes, usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            5 => {
                let mut four = [0; 4];
                four.copy_from_slice(take(&mut bytes, 4)?);
                Value::Four(four)
            }
            _ => return Err(wrong("has a field of a kind there is not: it is no SentencePiece model")),
        };
        f((key >> 3, value))?;
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(wrong("has a number that does not end"))
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], Malformed> {
    let (head, rest) = bytes.split_at_checked(count).ok_or_else(|| wrong("is cut short"))?;
    *bytes = rest;
    Ok(head)
}

fn wrong(problem: &str) -> Malformed {
    Malformed::Inconsistent { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn pieces_and_map_are_found_and_truncations_refused() {
        let score = [&[2 << 3 | 5][..], &(-1.5f32).to_le_bytes()].concat();
        let piece = [field(1, "▁a".as_bytes()), score, vec![3 << 3, 4]].concat();
        let all = [field(1, &piece), field(3, &field(2, b"map")), vec![7 << 3, 0x80, 1]].concat();
        let (pieces, map) = parse(&all).unwrap();
        assert_eq!((pieces[0].text.as_str(), pieces[0].score, pieces[0].kind), ("▁a", -1.5, Kind::UserDefined));
        assert_eq!(map, b"map");
        let whole = [field(1, &piece).len(), all.len() - 3];
        for len in (0..all.len()).filter(|len| !whole.contains(len)) {
            assert!(parse(&all[..len]).is_err(), "{len}");
        }
        assert!(parse(&[0xff; 32]).is_err());
    }
}
