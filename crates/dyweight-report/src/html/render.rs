//! Page → HTML: the skeleton around the blocks.

use super::blocks::Writer;
use super::escape::{html, plain, prose};
use super::{Page, Section};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Nothing may be loaded, sent or framed; what is inside the file may be shown and run.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// The whole file.
pub(super) fn page(page: &Page) -> String {
    let mut out = head(page);
    let _ = write!(
        out,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the text</a>\n<header class=\"top\">\n<h1>{}</h1>\n",
        prose(&page.title)
    );
    if !page.headline.is_empty() {
        let _ = writeln!(out, "<p class=\"headline\">{}</p>", prose(&page.headline));
    }
    if !page.lead.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", prose(&page.lead));
    }
    out.push_str("</header>\n");
    contents(&mut out, page);
    out.push_str("<main id=\"main\">\n");
    findings(&mut out, page);
    let mut writer = Writer::new(out);
    for (index, section) in page.sections.iter().enumerate() {
        writer.section(section, index + 1);
    }
    let mut out = writer.finish();
    let _ = write!(out, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn head(page: &Page) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n",
        html(&plain(&page.title))
    )
}

fn contents(out: &mut String, page: &Page) {
    if page.sections.len() < 2 {
        return;
    }
    out.push_str("<nav class=\"contents\" aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n");
    for (index, section) in page.sections.iter().enumerate() {
        let number = index + 1;
        let _ = writeln!(
            out,
            "<li><a href=\"#section-{number}\"><span class=\"number\">{number}</span>{}</a></li>",
            prose(&section.heading)
        );
    }
    out.push_str("</ol>\n</nav>\n");
}

/// All verdicts at the head of a page without a headline, each with a link to its section. One alone needs no list.
fn findings(out: &mut String, page: &Page) {
    let located = |(index, section): (usize, &Section)| {
        let link = |(verdict, sentence): (_, &str)| (verdict, sentence.to_owned(), index + 1);
        section.verdicts().into_iter().map(link).collect::<Vec<_>>()
    };
    let found: Vec<_> = page.sections.iter().enumerate().flat_map(located).collect();
    if found.len() < 2 || !page.headline.is_empty() {
        return;
    }
    out.push_str(
        "<section class=\"findings\" aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n<ul>\n",
    );
    for (verdict, sentence, section) in found {
        let _ = writeln!(
            out,
            "<li class=\"{}\"><strong><span aria-hidden=\"true\">{}</span> {}</strong><span>{} \
             <a href=\"#section-{section}\" aria-label=\"Section {section}\">§{section}</a></span></li>",
            verdict.word().to_lowercase(),
            verdict.sign(),
            verdict.word(),
            prose(&sentence)
        );
    }
    out.push_str("</ul>\n</section>\n");
}
