//! Pages: a report as one HTML file that needs nothing else.
//!
//! A [`Page`] is a plain document: sections of text, verdicts, tables, charts and pictures. [`Page::render`] writes it
//! as HTML with its style, script and pictures inside, [`Page::markdown`] writes its words and numbers, [`Table::csv`]
//! the numbers of one table. The same document gives the same bytes.
//!
//! What a page promises: it loads nothing (its content policy forbids the network), all text is escaped, it reads on a
//! phone, on paper, in the dark and without scripts. Scripts only add: sorting, values under the pointer, sliders in
//! place of pairs of pictures, tabs in place of a sequence. In running text, words between backticks are set as code.

mod blocks;
mod chart;
mod escape;
mod files;
mod markdown;
mod media;
mod render;
mod table;

pub use media::{Chart, Compare, Gallery};
pub use table::{Better, Cell, Column, Table};

use dyweight_core::error::Result;
use dyweight_files::{atomic, image};
use std::path::{Path, PathBuf};

/// A document.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    title: String,
    headline: String,
    lead: String,
    sections: Vec<Section>,
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), headline: String::new(), lead: String::new(), sections: Vec::new() }
    }

    /// With the result in one sentence, before everything else.
    pub fn headline(self, sentence: impl Into<String>) -> Self {
        Self { headline: sentence.into(), ..self }
    }

    /// The result in one sentence, if it has one.
    pub fn result(&self) -> Option<&str> {
        Some(self.headline.as_str()).filter(|sentence| !sentence.is_empty())
    }

    /// With a paragraph below the title that says what the page is about.
    pub fn lead(self, text: impl Into<String>) -> Self {
        Self { lead: text.into(), ..self }
    }

    /// Adds a section, to be filled. Its heading is listed in the table of contents.
    pub fn section(&mut self, heading: impl Into<String>) -> &mut Section {
        self.sections.push(Section::new(heading));
        self.sections.last_mut().expect("just pushed")
    }

    /// The page as one HTML file.
    pub fn render(&self) -> String {
        render::page(self)
    }

    /// The same as Markdown; its pictures are the files of [`Page::figures`].
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// Every chart and picture as a file, under the name by which [`Page::markdown`] links it.
    pub fn figures(&self) -> Vec<(String, Vec<u8>)> {
        files::of(self)
    }

    /// Writes it into a directory as `report.html`, and as `report.md` with its figures; returns the former.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        let html = directory.join("report.html");
        atomic::write(&html, self.render().as_bytes())?;
        atomic::write(&directory.join("report.md"), self.markdown().as_bytes())?;
        for (name, bytes) in self.figures() {
            image::write(&directory.join(name), &bytes)?;
        }
        Ok(html)
    }

    /// Every table of the page, in reading order.
    pub fn tables(&self) -> Vec<&Table> {
        self.sections.iter().flat_map(Section::tables).collect()
    }
}

/// How a claim fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The numbers support it.
    Holds,
    /// The numbers contradict it.
    Fails,
    /// In part, or in some cases.
    Mixed,
    /// The numbers do not decide.
    Open,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "Holds",
            Verdict::Fails => "Fails",
            Verdict::Mixed => "Mixed",
            Verdict::Open => "Open",
        }
    }

    /// A sign that tells it from the others without colour.
    pub fn sign(self) -> &'static str {
        match self {
            Verdict::Holds => "✓",
            Verdict::Fails => "✗",
            Verdict::Mixed => "≈",
            Verdict::Open => "?",
        }
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Heading(String),
    Text(String),
    Verdict(Verdict, String),
    Table(Table),
    Chart(Chart),
    Compare(Compare),
    Choice(Choice),
    Gallery(Gallery),
    Code { text: String, language: String },
    Facts(Vec<(String, String)>),
    Links(Vec<(String, String)>),
}

/// A heading and what stands below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    heading: String,
    blocks: Vec<Part>,
}

impl Section {
    fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    fn push(&mut self, block: Part) -> &mut Self {
        self.blocks.push(block);
        self
    }

    /// A heading inside the section.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Part::Heading(text.into()))
    }

    /// A paragraph.
    pub fn text(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Part::Text(text.into()))
    }

    /// A computed conclusion. The page lists them all at its head.
    pub fn verdict(&mut self, verdict: Verdict, sentence: impl Into<String>) -> &mut Self {
        self.push(Part::Verdict(verdict, sentence.into()))
    }

    /// A table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.push(Part::Table(table))
    }

    /// A chart.
    pub fn chart(&mut self, chart: Chart) -> &mut Self {
        self.push(Part::Chart(chart))
    }

    /// Two pictures under a slider.
    pub fn compare(&mut self, compare: Compare) -> &mut Self {
        self.push(Part::Compare(compare))
    }

    /// Variants of which a reader sees one at a time; to be filled.
    pub fn choice(&mut self, label: impl Into<String>) -> &mut Choice {
        self.push(Part::Choice(Choice { label: label.into(), options: Vec::new() }));
        match self.blocks.last_mut() {
            Some(Part::Choice(choice)) => choice,
            _ => unreachable!("just pushed"),
        }
    }

    /// Pictures side by side.
    pub fn images(&mut self, gallery: Gallery) -> &mut Self {
        self.push(Part::Gallery(gallery))
    }

    /// A program text or command line, to be copied; `language` as in a Markdown fence.
    pub fn code(&mut self, text: impl Into<String>, language: impl Into<String>) -> &mut Self {
        self.push(Part::Code { text: text.into(), language: language.into() })
    }

    /// Names and their values: what was run, and on what.
    pub fn facts(&mut self, facts: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> &mut Self {
        self.push(Part::Facts(facts.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
    }

    /// Files beside the page: what each is, and its path from there.
    pub fn links(&mut self, links: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> &mut Self {
        self.push(Part::Links(links.into_iter().map(|(name, path)| (name.into(), path.into())).collect()))
    }

    fn tables(&self) -> Vec<&Table> {
        let inside = self.blocks.iter().flat_map(|block| match block {
            Part::Table(table) => vec![table],
            Part::Choice(choice) => choice.options.iter().flat_map(Section::tables).collect(),
            _ => Vec::new(),
        });
        inside.collect()
    }

    fn verdicts(&self) -> Vec<(Verdict, &str)> {
        let inside = self.blocks.iter().flat_map(|block| match block {
            Part::Verdict(verdict, sentence) => vec![(*verdict, sentence.as_str())],
            Part::Choice(choice) => choice.options.iter().flat_map(Section::verdicts).collect(),
            _ => Vec::new(),
        });
        inside.collect()
    }
}

/// Variants of which a reader sees one at a time: budgets, say. On paper all are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    label: String,
    options: Vec<Section>,
}

impl Choice {
    /// Adds a variant, to be filled.
    pub fn option(&mut self, name: impl Into<String>) -> &mut Section {
        self.options.push(Section::new(name));
        self.options.last_mut().expect("just pushed")
    }
}
