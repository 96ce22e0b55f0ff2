//! The figures of a page as files of their own: charts as SVG, pictures as PNG.
//!
//! Figures have the numbers they have on the page: both walk it in the same order.

use super::{Page, Part, Section};

/// Where figures lie, from the page.
const FOLDER: &str = "figures";

/// The files of one figure with what each shows.
pub(super) fn named(part: &Part, number: usize) -> Vec<(String, String)> {
    let name = |index: usize, label: &str, end: &str| {
        (format!("{FOLDER}/figure-{number}{}.{end}", letter(index)), label.to_string())
    };
    match part {
        Part::Chart(chart) => vec![(format!("{FOLDER}/figure-{number}.svg"), chart.caption.clone())],
        Part::Compare(compare) => compare.all().enumerate().map(|(i, (label, _))| name(i, label, "png")).collect(),
        Part::Gallery(gallery) => {
            gallery.items.iter().enumerate().map(|(i, (label, _))| name(i, label, "png")).collect()
        }
        _ => Vec::new(),
    }
}

/// a, b, …: the pictures of one figure; beyond z numbers.
fn letter(index: usize) -> String {
    u8::try_from(index)
        .ok()
        .filter(|i| *i < 26)
        .map_or_else(|| format!("-{index}"), |i| char::from(b'a' + i).to_string())
}

/// All files of a page.
pub(super) fn of(page: &Page) -> Vec<(String, Vec<u8>)> {
    let (mut files, mut number) = (Vec::new(), 0);
    page.sections.iter().for_each(|section| collect(section, &mut number, &mut files));
    files
}

fn collect(section: &Section, number: &mut usize, files: &mut Vec<(String, Vec<u8>)>) {
    for part in &section.blocks {
        if let Part::Choice(choice) = part {
            choice.options.iter().for_each(|option| collect(option, number, files));
            continue;
        }
        let bytes: Vec<Vec<u8>> = match part {
            Part::Chart(chart) => vec![chart.wide.to_svg().into_bytes()],
            Part::Compare(compare) => compare.all().map(|(_, image)| image.to_png()).collect(),
            Part::Gallery(gallery) => gallery.items.iter().map(|(_, image)| image.to_png()).collect(),
            _ => continue,
        };
        *number += 1;
        files.extend(named(part, *number).into_iter().map(|(path, _)| path).zip(bytes));
    }
}
