//! Page → Markdown: words, verdicts, tables and facts. Pictures and charts are named by their captions only in HTML.

use super::escape::{cell, markdown};
use super::table::{Better, Column, Table};
use super::{Page, Part, Section};
use std::fmt::Write;

/// The whole file.
pub(super) fn page(page: &Page) -> String {
    let mut out = format!("# {}\n", markdown(&page.title));
    if !page.lead.is_empty() {
        let _ = write!(out, "\n{}\n", markdown(&page.lead));
    }
    for section in &page.sections {
        let _ = write!(out, "\n## {}\n", markdown(&section.heading));
        blocks(&mut out, section);
    }
    out
}

fn blocks(out: &mut String, section: &Section) {
    for block in &section.blocks {
        match block {
            Part::Heading(text) => {
                let _ = write!(out, "\n### {}\n", markdown(text));
            }
            Part::Text(text) => {
                let _ = write!(out, "\n{}\n", markdown(text));
            }
            Part::Verdict(verdict, sentence) => {
                let _ = write!(out, "\n**{} {}.** {}\n", verdict.sign(), verdict.word(), markdown(sentence));
            }
            Part::Table(table) => write_table(out, table),
            Part::Choice(choice) => {
                // A variant of pictures alone leaves nothing to write under its heading.
                for option in choice.options.iter().filter(|o| has_words(o)) {
                    let _ = write!(out, "\n### {}: {}\n", markdown(&choice.label), markdown(&option.heading));
                    blocks(out, option);
                }
            }
            Part::Code { text, language } => fence(out, text, language),
            Part::Facts(facts) => {
                out.push('\n');
                for (name, value) in facts {
                    let _ = writeln!(out, "- {}: {}", markdown(name), markdown(value));
                }
            }
            Part::Chart(_) | Part::Compare(_) | Part::Gallery(_) => {}
        }
    }
}

fn has_words(section: &Section) -> bool {
    section.blocks.iter().any(|block| match block {
        Part::Chart(_) | Part::Compare(_) | Part::Gallery(_) => false,
        Part::Choice(choice) => choice.options.iter().any(has_words),
        _ => true,
    })
}

/// A fence longer than any run of backticks inside.
fn fence(out: &mut String, text: &str, language: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let language: String = language.chars().filter(|c| c.is_alphanumeric()).collect();
    let _ = write!(out, "\n{fence}{language}\n{}\n{fence}\n", text.trim_end());
}

fn write_table(out: &mut String, table: &Table) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let _ = write!(out, "\n{}\n\n", markdown(&table.caption));
    out.push_str(&line(table.columns.iter().map(heading).collect()));
    out.push_str(&line(table.columns.iter().map(|c| if c.numeric { "--:" } else { "---" }.into()).collect()));
    for (r, row) in table.rows.iter().enumerate() {
        let written = |(c, value): (usize, &super::Cell)| {
            let text = cell(&value.display());
            if table.is_best(r, c) { format!("**{text}**") } else { text }
        };
        out.push_str(&line(row.iter().enumerate().map(written).collect()));
    }
    let notes = table.notes("Bold:");
    if !notes.is_empty() {
        let _ = write!(out, "\n{}\n", notes.join(" "));
    }
}

fn heading(column: &Column) -> String {
    let arrow = match column.better {
        Some(Better::Lower) => " ↓",
        Some(Better::Higher) => " ↑",
        None => "",
    };
    let hint = if column.hint.is_empty() { String::new() } else { format!(" ({})", column.hint) };
    format!("{}{arrow}", cell(&format!("{}{hint}", column.name)))
}
