//! Pages: the same bytes, nothing that leaves its place, nothing that leaves the file.

use dyweight_files::image::Image;
use dyweight_metrics::Estimate;
use dyweight_report::html::{Cell, Chart, Column, Compare, Gallery, Page, Table, Verdict};
use dyweight_report::{Axis, BarChart, BarSeries, Figure, HeatMap, LineChart, Series};

fn picture() -> Image {
    Image::new(2, 2, 1, vec![0, 80, 160, 255]).unwrap()
}

/// A page with a block of every kind, `text` in every place that takes one.
fn page(text: &str) -> Page {
    let chart = LineChart::new(text, Axis::linear(text), Axis::log(text))
        .with(Series::new(text, 0, vec![(1.0, 2.0), (2.0, f64::NAN), (3.0, 0.5)]).errors(vec![0.1, 0.1, 0.1]));
    let bars = BarChart::new(text, vec![text.into()], Axis::linear(text)).with(BarSeries::new(text, 1, vec![2.0]));
    let heat =
        HeatMap::new(text, vec![vec![1.0, f64::NAN]]).labels(text, text).names(vec![text.into()], vec![text.into()]);
    let figure = Figure::new(2, (500.0, 150.0)).title(text).with(chart).with(bars).with(heat);
    let mut table = Table::new(text, [Column::text(text).hint(text), Column::number(text).higher_is_better()]);
    let estimate = |value: f64| Cell::from(Estimate::new(value, 0.01, 12));
    table.row([text.into(), estimate(1.0)]).row([Cell::shown(2.0, text), estimate(2.0)]).row([Cell::Empty]);
    let mut page = Page::new(text).headline(text).lead(text);
    let section = page.section(text);
    section.heading(text).text(text).verdict(Verdict::Holds, text).verdict(Verdict::Open, text);
    section.table(table).chart(Chart::new(text, &figure).unwrap());
    section.images(Gallery::new(text, 2).with(text, picture()));
    section.code(text, text).facts([(text, text)]).links([(text, text)]);
    let compare = Compare::new(text, (text, picture()), (text, picture())).with(text, picture());
    section.choice(text).option(text).compare(compare);
    page.section(text).text(text);
    page
}

#[test]
fn the_same_page_gives_the_same_bytes() {
    assert_eq!(page("a").render(), page("a").render());
    assert_eq!(page("a").markdown(), page("a").markdown());
}

#[test]
fn hostile_text_stays_text() {
    for text in [
        "</script><script>alert(1)</script>",
        "\" onload=\"alert(1)",
        "' onload='alert(1)",
        "<img src=x onerror=alert(1)>",
        "]]><!--",
        "`<b>`",
        "</style></title></svg></td>\u{0}\u{1b}",
    ] {
        let (html, calm) = (page(text).render(), page("calm").render());
        for tag in
            ["<script", "</script", "<style", "</style", "</title", "<svg", "</svg", "<td", "<b>", "<!--", "<img"]
        {
            assert_eq!(html.matches(tag).count(), calm.matches(tag).count(), "{tag} of {text:?}");
        }
        assert_eq!(handlers(&html), 0, "{text:?}");
        assert!(!html.contains('\u{0}'), "{text:?}");
    }
}

/// Attributes in tags that begin with `on`; quoted values do not count.
fn handlers(html: &str) -> usize {
    let body = html.split_once("<body>").map_or("", |(_, rest)| rest);
    let body = body.split_once("<script>").map_or(body, |(before, _)| before);
    let (mut found, mut inside, mut quote, mut before) = (0, false, None, ' ');
    for (at, c) in body.char_indices() {
        match (inside, quote) {
            (false, _) => inside = c == '<',
            (true, Some(q)) if c == q => quote = None,
            (true, Some(_)) => {}
            (true, None) if matches!(c, '"' | '\'') => quote = Some(c),
            (true, None) if c == '>' => inside = false,
            (true, None) if before == ' ' && body[at..].starts_with("on") => found += 1,
            (true, None) => {}
        }
        before = c;
    }
    found
}

#[test]
fn handlers_in_tags_are_found() {
    assert_eq!(handlers("<body><a title=\"x onload=\" onload=\"y\">on <b>\" on</b>"), 1);
}

#[test]
fn a_page_loads_nothing() {
    let html = page("x").render();
    assert!(html.contains("content=\"default-src 'none'; img-src data:;"));
    // The one address is the name of the SVG language, which a script needs to make an element of it.
    assert_eq!(html.matches("://").count(), html.matches("\"http://www.w3.org/2000/svg\"").count());
    let targets = |attribute: &'static str| html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
    assert!(targets("src=\"").all(|target| target.starts_with("data:image/png;base64,")));
    // Links lead to places of the page or to files beside it, and are followed by people alone.
    let is_near = |target: &str| {
        let inside = target.starts_with('#') || target.starts_with("data:image/png;base64,");
        inside || !target.contains(':') && !target.starts_with('/')
    };
    assert!(targets("href=\"").all(is_near));
}

#[test]
fn charts_bring_their_values_with_them() {
    let html = page("x").render();
    // Two points of the line (the third is not a number), one bar, one cell of the matrix.
    assert_eq!(html.matches("<tr data-at=").count(), 4);
    assert!(html.contains("<td>x 2.00 ± 0.10</td>"), "a value with its error");
}

#[test]
fn markdown_has_all_of_a_page_and_links_its_pictures() {
    let mut table =
        Table::new("Errors", [Column::text("solver"), Column::number("FID").hint("↓ only").lower_is_better()]);
    table.row(["a|b".into(), Estimate::new(1.0, 0.1, 9).into()]);
    table.row(["c".into(), Estimate::new(3.0, 0.1, 9).into()]);
    let mut page = Page::new("Title").headline("Result.").lead("Lead.");
    let section = page.section("Part");
    section.verdict(Verdict::Fails, "It is `not` so.").table(table).images(Gallery::new("x", 1).with("y", picture()));
    let compare = Compare::new("x", ("l", picture()), ("r", picture())).with("t", picture());
    section.choice("Calls").option("3").compare(compare);
    section.facts([("seed", "1")]).links([("Numbers", "a b.csv")]).code("run ```", "sh");
    let expected = "# Title\n\n**Result.**\n\nLead.\n\n## Part\n\n**✗ Fails.** It is `not` so.\n\nErrors\n\n\
        | solver | FID (↓ only) |\n| --- | --: |\n| a\\|b | **1.00 ± 0.10** |\n| c | 3.00 ± 0.10 |\n\n\
        Bold: clearly best of its column, by more than two standard errors where there are any. Lower is better. ± one standard error, \
        N\u{a0}=\u{a0}9.\n\n![y](figures/figure-1a.png)\n\n**Figure 1.** x\n\n### Calls: 3\n\n![l](figures/figure-2a.png)\n\
        ![r](figures/figure-2b.png)\n![t](figures/figure-2c.png)\n\n**Figure 2.** x From left to right: l; r; t.\n\n\
        - seed: 1\n\n- Numbers: [a b.csv](a%20b.csv)\n\n````sh\nrun ```\n````\n";
    assert_eq!(page.markdown(), expected);
    assert_eq!(page.tables().len(), 1);
    let files: Vec<String> = page.figures().into_iter().map(|(name, _)| name).collect();
    assert_eq!(files, ["1a", "2a", "2b", "2c"].map(|n| format!("figures/figure-{n}.png")));
    let html = page.render();
    assert!(html.contains("<b>Figure 2.</b>") && html.contains("href=\"a%20b.csv\"") && !html.contains("↓</span>"));
}
