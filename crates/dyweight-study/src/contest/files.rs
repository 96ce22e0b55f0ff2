//! The files of a report: the page, the same as Markdown, and every measure as a table and a chart.

use super::page::Style;
use super::view::View;
use crate::report::html::Page;
use dyweight_core::error::Result;
use dyweight_files::{atomic, image};
use std::path::{Path, PathBuf};

impl View<'_> {
    /// Writes them into a directory and returns the page's.
    pub fn write(&self, page: &Page, directory: &Path) -> Result<PathBuf> {
<<<<<<< ours
        let html = page.write(directory)?;
=======
        let html = directory.join("report.html");
        atomic::write(&html, page.render().as_bytes())?;
        atomic::write(&directory.join("report.md"), page.markdown().as_bytes())?;
        for (name, bytes) in page.figures() {
            image::write(&directory.join(name), &bytes)?;
        }
>>>>>>> theirs
        for measure in self.all_measures() {
            let name = measure.file_name();
            atomic::write(&directory.join(format!("{name}.csv")), self.table(measure, name).csv().as_bytes())?;
            let style = Style { x: "".into(), ..Default::default() };
            if self.columns().len() > 1 {
                self.figure(measure, &style).draw()?.write(&directory.join(name))?;
            }
        }
        Ok(html)
    }
}
