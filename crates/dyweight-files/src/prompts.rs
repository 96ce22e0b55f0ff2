//! Lists of prompts: texts by line, JSON lines, or a column of a table; told by content, but for the column, which is
//! asked for.
//!
//! ```text
//! lines   white space at both ends does not count, empty lines are passed over, as the published scripts do
//! JSON    {"prompt": "…", …}, one object in a line
//! table   comma-separated values (RFC 4180) with a header
//! ```

use crate::{Malformed, read_file};
use dyweight_core::error::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// No list of prompts is larger.
const LARGEST: u64 = 64 << 20;

/// The prompts of a file; `column` names that of a table.
pub fn read_prompts(path: &Path, column: Option<&str>) -> Result<Vec<String>> {
    let bytes = read_file(path, LARGEST)?;
    let named = |problem| Error::malformed(path, problem);
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| named(Malformed::NotText { what: "prompts", offset: e.valid_up_to() }))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let prompts = match column {
        Some(column) => of_table(text, column).map_err(named)?,
        None if text.trim_start().starts_with("{\"") => of_json_lines(text).map_err(named)?,
        None => text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect(),
    };
    match prompts.len() {
        0 => Err(named(Malformed::Inconsistent { problem: "holds no prompt".into() })),
        _ => Ok(prompts),
    }
}

fn of_json_lines(text: &str) -> Result<Vec<String>, Malformed> {
    let prompt = |(number, line): (usize, &str)| {
        let what = |reason: String| Malformed::Json { what: "prompts", reason: format!("line {number}: {reason}") };
        let object: Map<String, Value> = dyweight_core::json::parse(line.as_bytes()).map_err(what)?;
        let prompt = object.get("prompt").and_then(Value::as_str);
        let prompt = prompt.ok_or_else(|| what("there is no text 'prompt'".into()))?.trim();
        if prompt.is_empty() { Err(what("the prompt is empty".into())) } else { Ok(prompt.to_string()) }
    };
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).map(prompt).collect()
}

fn of_table(text: &str, column: &str) -> Result<Vec<String>, Malformed> {
    let mut rows = rows(text)?.into_iter();
    let head = rows.next().unwrap_or_default();
    let index = head.iter().position(|name| name.trim() == column).ok_or_else(|| {
        let names: Vec<String> = head.iter().take(8).map(|name| format!("'{}'", name.trim())).collect();
        Malformed::Inconsistent { problem: format!("has no column '{column}' among {}", names.join(", ")) }
    })?;
    let prompt = |(number, row): (usize, Vec<String>)| match row.get(index).map(|cell| cell.trim()) {
        Some(prompt) if !prompt.is_empty() => Ok(prompt.to_string()),
        _ => Err(Malformed::Inconsistent { problem: format!("row {number} has no text in column '{column}'") }),
    };
    (1..).zip(rows).map(prompt).collect()
}

/// Cells of each record that is not empty.
fn rows(text: &str) -> Result<Vec<Vec<String>>, Malformed> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let (mut quoted, mut any) = (false, false);
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' if quoted || cell.is_empty() => (quoted, any) = (!quoted, true),
            _ if quoted => cell.push(c),
            ',' => {
                row.push(std::mem::take(&mut cell));
                any = true;
            }
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                row.push(std::mem::take(&mut cell));
                if std::mem::take(&mut any) {
                    rows.push(std::mem::take(&mut row));
                }
                row.clear();
            }
            _ => {
                cell.push(c);
                any = true;
            }
        }
    }
    if quoted {
        return Err(Malformed::Inconsistent { problem: "a quotation mark is never closed".into() });
    }
    if any {
        row.push(cell);
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, column: Option<&str>) -> Result<Vec<String>> {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dyweight-prompts-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let found = read_prompts(&path, column);
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn three_kinds_of_lists() {
        assert_eq!(read("\u{feff} a cat \r\n\n\tdogs\n", None).unwrap(), ["a cat", "dogs"]);
        assert_eq!(
            read("{\"prompt\": \"a \\\"b\\\"\", \"id\": 1}\n\n{\"prompt\":\"c\"}", None).unwrap(),
            ["a \"b\"", "c"]
        );
        let table = "id,text\r\n1,\"a, \"\"b\"\"\nc\"\n\n2, d\n3,e\"f";
        assert_eq!(read(table, Some("text")).unwrap(), ["a, \"b\"\nc", "d", "e\"f"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str, column| read(text, column).unwrap_err().to_string();
        assert!(said(" \n", None).contains("holds no prompt"));
        assert!(said("{\"prompt\": 1}", None).contains("line 1"));
        assert!(said("{\"prompt\": \"a\"}\n{\"x\": \"\"}", None).contains("line 2"));
        assert!(said("a,b\n1,2", Some("text")).contains("'a', 'b'"));
        assert!(said("text,b\n,2", Some("text")).contains("row 1"));
        assert!(said("text\n\"a", Some("text")).contains("never closed"));
    }
}
