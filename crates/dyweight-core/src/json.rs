//! JSON as somebody else wrote it: a byte-order mark is read over, and a key that stands twice is refused.
//!
//! Readers differ in which of two equal keys counts. A file that means one thing here and another elsewhere is no file
//! to go on with.

use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// A document, or what is wrong with it and where.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let Unique(value) = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// A value in which no object has a key twice.
struct Unique(Value);

impl<'de> serde::Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format!("the key '{key}' stands twice")));
            }
            let Unique(value) = entries.next_value()?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_named_and_a_mark_read_over() {
        let text = r#"{"a": [1, -2, 2.5, true, null, "x"], "b": {"a": 1e300}}"#;
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse::<Value>(text.as_bytes()).unwrap(), plain);
        assert_eq!(parse::<Value>(format!("\u{feff}{text}").as_bytes()).unwrap(), plain);
        let twice = parse::<Value>(br#"{"b": [{"steps": 3, "steps": 4}]}"#).unwrap_err();
        assert!(twice.contains("'steps' stands twice") && twice.contains("line 1"), "{twice}");
        for bad in [&b""[..], b"{", b"\xef\xbb\xbf", b"\xff", b"{\"a\": 1}}"] {
            assert!(parse::<Value>(bad).is_err());
        }
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(parse::<Value>(&deep).unwrap_err().contains("recursion"));
    }
}
