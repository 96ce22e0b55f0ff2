//! Page → Markdown: everything a page has. Charts and pictures are linked as the files of [`Page::figures`].

use super::escape::{address, cell, markdown};
use super::files;
use super::table::{Column, Table};
use super::{Page, Part, Section};
use std::fmt::Write;

/// The whole file.
pub(super) fn page(page: &Page) -> String {
    let mut out = format!("# {}\n", markdown(&page.title));
    if !page.headline.is_empty() {
        let _ = write!(out, "\n**{}**\n", markdown(&page.headline));
    }
    if !page.lead.is_empty() {
        let _ = write!(out, "\n{}\n", markdown(&page.lead));
    }
    let mut figures = 0;
    for section in &page.sections {
        let _ = write!(out, "\n## {}\n", markdown(&section.heading));
        blocks(&mut out, section, &mut figures);
    }
    out
}

fn blocks(out: &mut String, section: &Section, figures: &mut usize) {
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
                for option in &choice.options {
                    let _ = write!(out, "\n### {}: {}\n", markdown(&choice.label), markdown(&option.heading));
                    blocks(out, option, figures);
                }
            }
            Part::Code { text, language } => fence(out, text, language),
            Part::Facts(facts) => {
                out.push('\n');
                for (name, value) in facts {
                    let _ = writeln!(out, "- {}: {}", markdown(name), markdown(value));
                }
            }
            Part::Links(links) => {
                out.push('\n');
                for (name, path) in links {
                    let _ = writeln!(out, "- {}: [{}]({})", markdown(name), cell(path), address(path));
                }
            }
            Part::Chart(chart) => figure(out, block, &chart.caption, figures),
            Part::Compare(compare) => figure(out, block, &compare.caption, figures),
            Part::Gallery(gallery) => figure(out, block, &gallery.caption, figures),
        }
    }
}

/// The pictures of a figure, each with its label, and the caption with the number it has on the page.
fn figure(out: &mut String, part: &Part, caption: &str, figures: &mut usize) {
    *figures += 1;
    out.push('\n');
    let files = files::named(part, *figures);
    for (path, label) in &files {
        let _ = writeln!(out, "![{}]({})", markdown(label), address(path));
    }
    let _ = write!(out, "\n**Figure {figures}.** {}", markdown(caption));
    if files.len() > 1 {
        let labels: Vec<String> = files.iter().map(|(_, label)| markdown(label)).collect();
        let _ = write!(out, " From left to right: {}.", labels.join("; "));
    }
    out.push('\n');
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
    let hint = if column.hint.is_empty() { String::new() } else { format!(" ({})", column.hint) };
    cell(&format!("{}{hint}", column.name))
}
