//! Charts → HTML: the drawing inline, and its values as a table that also feeds what is shown under the pointer.
//!
//! The table is the only copy of the values. Without scripts it can be opened and read; with them a row knows where
//! it is drawn, in the wide and in the narrow drawing.

use super::blocks::Writer;
use super::escape::{html, plain};
use super::media::Chart;
use crate::canvas::Spot;
use crate::svg::{element, num};
use std::fmt::Write;

/// A line of more points than this is listed in part: nobody reads or hits thousands of them.
const MOST: usize = 200;

impl Writer {
    pub(super) fn chart(&mut self, chart: &Chart) {
        let number = self.figures + 1;
        let label = html(&plain(&chart.caption));
        let class = if chart.narrow.is_some() { "wide" } else { "only" };
        let _ = writeln!(
            self.out,
            "<figure class=\"chart\">\n<div class=\"sheet\" style=\"--width:{}\">",
            chart.wide.width
        );
        let attributes = format!("class=\"{class}\" role=\"img\" aria-label=\"{label}\"");
        self.out.push_str(&element(&chart.wide, &format!("f{number}-"), &attributes));
        if let Some(narrow) = &chart.narrow {
            let attributes = format!("class=\"narrow\" role=\"img\" aria-label=\"{label}\"");
            self.out.push_str(&element(narrow, &format!("n{number}-"), &attributes));
        }
        self.out.push_str("</div>\n");
        self.values(chart);
        self.caption(&chart.caption);
    }

    fn values(&mut self, chart: &Chart) {
        let spots = &chart.wide.spots;
        let narrow = chart.narrow.as_ref().map_or(spots, |n| &n.spots);
        let kept = thinned(spots);
        if kept.is_empty() {
            return;
        }
        let panels = spots.iter().any(|s| s.panel != spots[0].panel);
        let part = if kept.len() < spots.len() { format!(" of {}", spots.len()) } else { String::new() };
        let _ = write!(
            self.out,
            "<details class=\"values\"><summary>{}{part} values</summary>\n<div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"Values\"><table>\n<thead><tr>{}<th scope=\"col\">Series</th>\
             <th scope=\"col\">Place</th><th scope=\"col\">Value</th></tr></thead>\n<tbody>\n",
            kept.len(),
            if panels { "<th scope=\"col\">Panel</th>" } else { "" }
        );
        for i in kept {
            let (spot, (x, y), (nx, ny)) = (&spots[i], spots[i].at, narrow[i].at);
            let _ = write!(self.out, "<tr data-at=\"{} {} {} {}\">", num(x), num(y), num(nx), num(ny));
            if panels {
                let _ = write!(self.out, "<td>{}</td>", html(&spot.panel));
            }
            let _ = writeln!(
                self.out,
                "<td>{}</td><td>{}</td><td>{}</td></tr>",
                html(&spot.series),
                html(&spot.place),
                html(&spot.value)
            );
        }
        self.out.push_str("</tbody></table></div></details>\n");
    }
}

/// Which values to list: of a long line every k-th and the last.
fn thinned(spots: &[Spot]) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut start = 0;
    for run in spots.chunk_by(|a, b| (&a.panel, &a.series) == (&b.panel, &b.series)) {
        let stride = run.len().div_ceil(MOST);
        kept.extend((0..run.len()).filter(|i| i % stride == 0 || *i + 1 == run.len()).map(|i| start + i));
        start += run.len();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_thinned_and_keep_their_ends() {
        let spot = |series: &str| Spot {
            at: (0.0, 0.0),
            panel: String::new(),
            series: series.into(),
            place: String::new(),
            value: String::new(),
        };
        let spots: Vec<Spot> = (0..1000).map(|_| spot("long")).chain((0..3).map(|_| spot("short"))).collect();
        let kept = thinned(&spots);
        assert_eq!((kept[0], kept[1], kept.len()), (0, 5, 204));
        assert_eq!(kept[200..], [999, 1000, 1001, 1002]);
        assert!(thinned(&[]).is_empty());
    }
}
