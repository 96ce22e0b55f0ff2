//! The files of a report: the page, the same as Markdown, and every measure as a table and a chart.

use super::page::Style;
use super::view::View;
use dyweight_core::error::Result;
use dyweight_files::atomic;
use dyweight_report::html::Page;
use std::path::{Path, PathBuf};

impl View<'_> {
    /// Writes them into a directory and returns the page's.
    pub fn write(&self, page: &Page, directory: &Path) -> Result<PathBuf> {
        let html = page.write(directory)?;
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
