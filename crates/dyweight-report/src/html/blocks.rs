//! Blocks → HTML. Tables and figures are numbered here, once, so that hidden variants keep their numbers.

use super::escape::{address, html, prose};
use super::media::{Compare, FINE, Gallery, magnification};
use super::table::{Better, Cell, Column, Table};
use super::{Choice, Part, Section, Verdict};
use crate::svg::base64;
use dyweight_files::image::Image;
use dyweight_metrics::Estimate;
use std::fmt::Write;

/// The page being written.
pub(super) struct Writer {
    pub(super) out: String,
    tables: usize,
    pub(super) figures: usize,
}

impl Writer {
    /// Goes on after `out`.
    pub(super) fn new(out: String) -> Self {
        Self { out, tables: 0, figures: 0 }
    }

    /// What was written.
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// A section of the page.
    pub(super) fn section(&mut self, section: &Section, number: usize) {
        let _ = writeln!(
            self.out,
            "<section id=\"section-{number}\">\n<h2><span class=\"number\">{number}</span>{}</h2>",
            prose(&section.heading)
        );
        section.blocks.iter().for_each(|block| self.block(block));
        self.out.push_str("</section>\n");
    }

    fn block(&mut self, block: &Part) {
        match block {
            Part::Heading(text) => self.line("<h3>", &prose(text), "</h3>"),
            Part::Text(text) => self.line("<p>", &prose(text), "</p>"),
            Part::Verdict(verdict, sentence) => self.verdict(*verdict, sentence),
            Part::Table(table) => self.table(table),
            Part::Chart(chart) => self.chart(chart),
            Part::Compare(compare) => self.compare(compare),
            Part::Choice(choice) => self.choice(choice),
            Part::Gallery(gallery) => self.gallery(gallery),
            Part::Code { text, language } => {
                let open = format!(
                    "<div class=\"code\"><pre tabindex=\"0\"><code class=\"language-{}\">",
                    html(&language.replace(char::is_whitespace, "-"))
                );
                self.line(&open, &html(text), "</code></pre></div>");
            }
            Part::Facts(facts) => self.facts(facts),
            Part::Links(links) => self.links(links),
        }
    }

    fn line(&mut self, open: &str, inside: &str, close: &str) {
        let _ = writeln!(self.out, "{open}{inside}{close}");
    }

    fn verdict(&mut self, verdict: Verdict, sentence: &str) {
        let (sign, word) = (verdict.sign(), verdict.word());
        let class = word.to_lowercase();
        let open = format!(
            "<p class=\"verdict {class}\"><strong><span aria-hidden=\"true\">{sign}</span> {word}</strong> <span>"
        );
        self.line(&open, &prose(sentence), "</span></p>");
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        self.out.push_str("<dl class=\"facts\">\n");
        for (name, value) in facts {
            let _ = writeln!(self.out, "<div><dt>{}</dt><dd>{}</dd></div>", prose(name), prose(value));
        }
        self.out.push_str("</dl>\n");
    }

    fn links(&mut self, links: &[(String, String)]) {
        self.out.push_str("<ul class=\"files\">\n");
        for (name, path) in links {
            let (href, shown) = (address(path), html(path));
            let _ = writeln!(self.out, "<li>{}: <a href=\"{href}\">{shown}</a></li>", prose(name));
        }
        self.out.push_str("</ul>\n");
    }

    fn table(&mut self, table: &Table) {
        self.tables += 1;
        let number = self.tables;
        let _ = write!(
            self.out,
            "<figure class=\"table\" id=\"table-{number}\">\n<figcaption id=\"caption-{number}\"><b>Table {number}.</b> \
             {}</figcaption>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"caption-{number}\">\
             \n<table class=\"sortable\" aria-labelledby=\"caption-{number}\">\n<thead><tr>",
            prose(&table.caption)
        );
        table.columns.iter().for_each(|column| self.column(column));
        self.out.push_str("</tr></thead>\n<tbody>\n");
        for (r, row) in table.rows.iter().enumerate() {
            self.out.push_str("<tr>");
            for (c, cell) in row.iter().enumerate() {
                self.cell(cell, &table.columns[c], c == 0, table.is_best(r, c));
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</tbody>\n</table>\n</div>\n");
        let mark = "<span class=\"mark\">◆</span>";
        let notes: Vec<String> = table.notes(mark);
        if !notes.is_empty() {
            self.line("<p class=\"note\">", &notes.join(" "), "</p>");
        }
        self.out.push_str("</figure>\n");
    }

    fn column(&mut self, column: &Column) {
        let (class, order) = match (column.numeric, column.better) {
            (_, Some(Better::Higher)) => ("num", "descending"),
            (true, _) => ("num", "ascending"),
            (false, _) => ("", "ascending"),
        };
        let _ = write!(
            self.out,
            "<th scope=\"col\" class=\"{class}\" data-first=\"{order}\"><span class=\"name\">{}</span>",
            html(&column.name)
        );
        if !column.hint.is_empty() {
            let _ = write!(self.out, "<span class=\"hint\">{}</span>", html(&column.hint));
        }
        self.out.push_str("</th>");
    }

    fn cell(&mut self, cell: &Cell, column: &Column, first: bool, best: bool) {
        let tag = if first { "th" } else { "td" };
        let mut class = if column.numeric { "num".to_owned() } else { String::new() };
        class += if best { " best" } else { "" };
        class += if *cell == Cell::Empty { " none" } else { "" };
        let _ = write!(self.out, "<{tag}");
        self.out.push_str(if first { " scope=\"row\"" } else { "" });
        if !class.is_empty() {
            let _ = write!(self.out, " class=\"{}\"", class.trim_start());
        }
        if let Some(value) = cell.value() {
            let _ = write!(self.out, " data-value=\"{value}\"");
        }
        if let Cell::Estimate(e) = cell {
            let _ = write!(self.out, " title=\"{}\"", html(&spelled(e)));
        }
        self.out.push('>');
        if best {
            self.out.push_str("<span class=\"mark\" role=\"img\" aria-label=\"clearly best:\">◆</span> ");
        }
        let shown = cell.display();
        match shown.split_once(" ± ").filter(|_| matches!(cell, Cell::Estimate(_))) {
            Some((value, error)) => {
                let _ = write!(self.out, "{value}<span class=\"error\"> ± {error}</span>");
            }
            None => self.out.push_str(&html(&shown)),
        }
        let _ = write!(self.out, "</{tag}>");
    }

    fn compare(&mut self, compare: &Compare) {
        let (left, right) = (&compare.left, &compare.right);
        let (w, h) = (left.1.width(), left.1.height());
        let width = w * magnification(&left.1, 640);
        let measured = if compare.beside.is_empty() { "" } else { " measured" };
        let class = format!("compare{measured}{}", drawn(compare.drawn));
        let _ = write!(
            self.out,
            "<figure class=\"{class}\" style=\"--width:{width}px;--ratio:{w}/{h}\">\n<div class=\"views\">\n<div class=\"slider\">\n\
             <div class=\"pair\">\n"
        );
        for (class, (label, image)) in [("left", left), ("right", right)] {
            let _ = write!(self.out, "<div class=\"{class}\">");
            self.picture(label, image, "");
            let _ = writeln!(self.out, "<span class=\"tag\">{}</span></div>", html(label));
        }
        self.out.push_str("</div>\n</div>\n");
        for (label, image) in &compare.beside {
            self.out.push_str("<div class=\"beside\">");
            self.picture(label, image, "");
            let _ = writeln!(self.out, "<span class=\"tag\">{}</span></div>", html(label));
        }
        self.out.push_str("</div>\n");
        self.caption(&compare.caption);
    }

    fn gallery(&mut self, gallery: &Gallery) {
        let _ = writeln!(
            self.out,
            "<figure class=\"gallery{}\">\n<div class=\"grid\" style=\"--columns:{}\">",
            drawn(gallery.drawn),
            gallery.columns
        );
        for (label, image) in &gallery.items {
            self.out.push_str("<div class=\"item\">");
            self.picture(label, image, "");
            let _ = writeln!(self.out, "<span class=\"tag\">{}</span></div>", html(label));
        }
        self.out.push_str("</div>\n");
        self.caption(&gallery.caption);
    }

    fn choice(&mut self, choice: &Choice) {
        let _ = writeln!(self.out, "<div class=\"choice\" data-label=\"{}\">", html(&choice.label));
        for option in &choice.options {
            let name = html(&option.heading);
            let label = html(&choice.label);
            let _ = writeln!(self.out, "<section data-name=\"{name}\">\n<h3>{label}: {name}</h3>");
            option.blocks.iter().for_each(|block| self.block(block));
            self.out.push_str("</section>\n");
        }
        self.out.push_str("</div>\n");
    }

    fn picture(&mut self, alt: &str, image: &Image, attributes: &str) {
        let fine = if image.width() > FINE { " class=\"fine\"" } else { "" };
        let _ = write!(
            self.out,
            "<img alt=\"{}\" width=\"{}\" height=\"{}\"{fine}{attributes} src=\"data:image/png;base64,{}\">",
            html(alt),
            image.width(),
            image.height(),
            base64(&image.to_png())
        );
    }

    /// Closes a figure with its number and caption.
    pub(super) fn caption(&mut self, caption: &str) {
        self.figures += 1;
        let number = self.figures;
        let open = format!("<figcaption><b>Figure {number}.</b> ");
        self.line(&open, &prose(caption), "</figcaption>\n</figure>");
    }
}

/// What a tooltip says of a measured number.
fn spelled(e: &Estimate) -> String {
    let over = match e.trainings {
        0 | 1 => String::new(),
        many => format!(" over samples, ± {} over {many} trainings", e.training_error),
    };
    format!("{} ± {} (one standard error{over}), N = {}", e.value, e.error, e.count)
}

/// What turns dark with the page.
fn drawn(is: bool) -> &'static str {
    if is { " drawn" } else { "" }
}
