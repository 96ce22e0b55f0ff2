//! What is looked at in a report: pictures, coefficients, training.

use super::candidate::Candidate;
use super::page::Style;
use super::view::View;
use dyweight_core::error::Result;
use dyweight_files::image::{Image, is_image};
use dyweight_report::html::{Chart, Compare, Gallery, Page, Section};
use dyweight_report::{Axis, Dash, Figure, HeatMap, LineChart, Marker, Series};

/// Differences are shown this many times as large as they are.
const AMPLIFIED: u16 = 3;
/// Rows and columns of pictures under the slider: few, so that they are large.
const LARGE: usize = 3;
/// Panels of training curves; more are not looked at.
const MOST_PANELS: usize = 12;

impl View<'_> {
    /// Columns with pictures of some row.
    fn pictured(&self) -> Vec<&str> {
        let has = |column: &&str| self.rows().iter().any(|row| self.sheet(row, column).is_some());
        self.columns().into_iter().filter(has).collect()
    }

    fn sheet(&self, row: &str, column: &str) -> Option<Image> {
        self.results.sheet(&self.experiment.key(self.entry(row, column)?))
    }

    /// The result as it is seen: two rows under a slider.
    pub(crate) fn before_after(&self, page: &mut Page, style: &Style) {
        let Some((before, after)) = &style.pair else { return };
        // A learned solver stands against the rival that the headline names: the best at that budget.
        let before = |column: &str| match self.is_learned(before) {
            true => before.as_str(),
            false => self.best_handcrafted(column).map_or(before.as_str(), |(best, _)| best),
        };
        let sheets = |column: &str| self.sheet(before(column), column).zip(self.sheet(after, column));
        let shown: Vec<&str> = self.columns().into_iter().filter(|column| sheets(column).is_some()).collect();
        if shown.is_empty() {
            return;
        }
        let section = page.section("Before and after");
        let choice = section.text("The same seeds and the same number of network calls.").choice("Network calls");
        for column in shown {
            if let Some((left, right)) = sheets(column) {
                choice.option(column).compare(self.before_and_after((before(column), left), (after, right), column));
            }
        }
    }

    /// All samples side by side, and the ways of some.
    pub fn samples(&self, page: &mut Page) {
        let shown = self.pictured();
        if shown.is_empty() {
            return;
        }
        let choice = page.section("Samples").choice("Samples");
        for column in &shown {
            let caption = format!("First samples of every solver, {column}, same seeds.");
            let mut gallery = Gallery::new(caption, 3).drawn(self.are_drawn(column));
            for row in self.rows() {
                if let Some(image) = self.sheet(row, column) {
                    gallery = gallery.with(row, image);
                }
            }
            choice.option(*column).images(gallery);
        }
        self.ways(page);
    }

    /// True if samples of a column are drawn as points, not shown as images.
    fn are_drawn(&self, column: &str) -> bool {
        let entry = self.rows().into_iter().find_map(|row| self.entry(row, column));
        let model = &*self.experiment.subjects[entry.map_or(0, |entry| entry.subject)].model.model;
        model.decoder().is_none() && !is_image(model.shape())
    }

    /// Two sheets under a slider, beside them the teacher's and what each lacks of it.
    fn before_and_after(&self, before: (&str, Image), after: (&str, Image), column: &str) -> Compare {
        let subject = self.entry(after.0, column).map_or(0, |entry| entry.subject);
        let model = &*self.experiment.subjects[subject].model.model;
        let shape = model.decoder().map_or(model.shape(), |decoder| decoder.shape());
        let are_images = is_image(shape);
        let large = |image: Image| if are_images { first_of(&image, shape, LARGE) } else { image };
        let (before, after) = ((before.0, large(before.1)), (after.0, large(after.1)));
        let caption = format!("{} against {}, {column}, the first seeds.", before.0, after.0);
        let Some(teacher) = self.results.sheet(&self.experiment.teacher_key(subject)).map(large) else {
            return Compare::new(caption, before, after).drawn(!are_images);
        };
        let lacks = [&before, &after]
            .map(|(name, sheet)| (format!("|{name} − teacher| × {AMPLIFIED}"), difference(sheet, &teacher)));
        let name = format!("teacher, {} calls", self.teacher_calls());
        let mut compare = Compare::new(caption, before, after).with(name, teacher).drawn(!are_images);
        for (label, image) in lacks {
            if let Some(image) = image.filter(|_| are_images) {
                compare = compare.with(label, image);
            }
        }
        compare
    }

    fn ways(&self, page: &mut Page) {
        let way = |row: &str, column: &str| self.results.way(&self.experiment.key(self.entry(row, column)?));
        let Some(column) = self.columns().into_iter().find(|c| self.rows().iter().any(|r| way(r, c).is_some())) else {
            return;
        };
        let mut gallery =
            Gallery::new(format!("States of three samples from noise (left) to result (right), {column}."), 2);
        for row in self.rows() {
            if let Some(image) = way(row, column) {
                gallery = gallery.with(row, image);
            }
        }
        page.section("Trajectories").images(gallery);
    }

    /// The learned coefficients of a row, one heat-map for each column.
    pub fn coefficients(&self, page: &mut Page, row: &str) -> Result<()> {
        let training_records: Vec<_> =
            self.columns().into_iter().filter_map(|c| Some((c, self.training_record(row, c)?))).collect();
        let given = self.columns().into_iter().filter_map(|c| match &self.entry(row, c)?.who {
            Candidate::Given { file } => Some((c, &**file)),
            _ => None,
        });
        let files = training_records.iter().map(|(c, l)| (*c, &*l.file)).chain(given);
        let files: Vec<_> = files.filter_map(|(c, file)| Some((c, file.body.weights()?))).collect();
        if files.is_empty() {
            return Ok(());
        }
        let section = page.section(format!("Coefficients: {row}"));
        section.text("Each row is a step: weights on the slopes of earlier steps, their sum Σw, which moves the time, and the scale s of the time told to the network. With fixed coefficients every Σw and s is 1.");
        for (column, learned) in files {
            let figure = dyweight_report::coefficients("", &learned.weights, &learned.time_scale);
            section.chart(Chart::new(format!("{row}, {column}."), &figure)?);
        }
        Ok(())
    }

    /// Validation loss against pairs seen: a panel for each budget, a point for each validation, and iPNDM's loss as a
    /// line.
    pub fn training_records(&self, page: &mut Page) -> Result<()> {
        let mut budgets: Vec<usize> = self.learned_entries().map(|entry| entry.nfe).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let panels: Vec<LineChart> = budgets.into_iter().filter_map(|nfe| self.curves_of(nfe)).collect();
        if panels.is_empty() || panels.len() > MOST_PANELS {
            return Ok(());
        }
        let (columns, size) = if panels.len() == 1 { (1, (620.0, 320.0)) } else { (2, (330.0, 250.0)) };
        let figure = panels.into_iter().fold(Figure::new(columns, size).legend_below(), Figure::with);
        let caption = "Loss on pairs of other seeds while training; a point for each validation. Dashed: iPNDM with as many calls.";
        page.section("Training").chart(Chart::new(caption, &figure)?);
        Ok(())
    }

    fn learned_entries(&self) -> impl Iterator<Item = &super::Entry> {
        self.experiment.entries.iter().filter(|entry| matches!(entry.who, Candidate::Learned { .. }))
    }

    /// The training curves of a budget.
    fn curves_of(&self, nfe: usize) -> Option<LineChart> {
        let mut seen: Vec<String> = Vec::new();
        let mut named: Vec<&str> = Vec::new();
        let mut chart =
            LineChart::new(format!("{nfe} calls"), Axis::linear("pairs seen"), Axis::log("validation loss"));
        chart.legend = false;
        let (mut ipndm, mut end) = (None, 0.0f64);
        for entry in self.learned_entries().filter(|entry| entry.nfe == nfe) {
            let Some(key) = self.experiment.record_key(entry).filter(|k| !seen.contains(k)) else { continue };
            let Some(training_record) = self.results.training_records.get(&key) else { continue };
            let points: Vec<_> = training_record
                .validation
                .iter()
                .map(|(i, loss)| ((i * training_record.pairs_per_iteration) as f64, *loss))
                .collect();
            end = points.last().map_or(end, |(x, _)| end.max(*x));
            ipndm = ipndm.or(training_record.file.training.get("ipndm_loss").and_then(|loss| loss.as_f64()));
            // Trainings of one row are one line of the legend.
            let name = if named.contains(&entry.row.as_str()) { "" } else { entry.row.as_str() };
            let look = self.row_style(&entry.row);
            chart = chart.with(Series::new(name, look.colour, points).marker(Marker::category(look.mark)));
            named.push(&entry.row);
            seen.push(key);
        }
        if let Some(loss) = ipndm {
            let line = Series::new("iPNDM", 1, vec![(0.0, loss), (end, loss)]).marker(Marker::None);
            chart = chart.with(line.dash(Dash::Dashed));
        }
        (!seen.is_empty()).then_some(chart)
    }

    /// Standard deviations of slopes, as a heat-map of rows by calls.
    pub fn slopes(&self, section: &mut Section, column: &str) -> Result<()> {
        let rows: Vec<_> =
            self.rows().into_iter().filter_map(|r| Some((r, self.score(r, column)?.slopes.clone()))).collect();
        let (names, cells): (Vec<String>, Vec<Vec<f64>>) = rows.into_iter().map(|(r, s)| (r.to_string(), s)).unzip();
        let map = HeatMap::new("", cells).labels("network call", "").names(names, Vec::new());
        let figure = Figure::single(map, 520.0, 260.0);
        section.chart(Chart::new(format!("Standard deviation of the slope at each call, {column}."), &figure)?);
        Ok(())
    }
}

/// The first rows and columns of a contact sheet of images of this shape.
fn first_of(sheet: &Image, [_, h, w]: [usize; 3], many: usize) -> Image {
    let kept = |side: usize, tile: usize| (many * (tile + 1) + 1).min(side);
    let (width, height, channels) = (kept(sheet.width(), w), kept(sheet.height(), h), sheet.channels());
    let rows = sheet.data().chunks_exact(sheet.width() * channels).take(height);
    let data = rows.flat_map(|row| &row[..width * channels]).copied().collect();
    Image::new(width, height, channels, data).unwrap_or_else(|_| sheet.clone())
}

/// The size of the difference of two pictures, dark where there is much; none if they are of different sizes.
fn difference(sheet: &Image, teacher: &Image) -> Option<Image> {
    let (a, b) = (sheet.to_rgb(), teacher.to_rgb());
    if (a.width(), a.height()) != (b.width(), b.height()) {
        return None;
    }
    let far = |(x, y): (&u8, &u8)| 255 - (AMPLIFIED * u16::from(x.abs_diff(*y))).min(255) as u8;
    let data = a.data().iter().zip(b.data()).map(far).collect();
    Image::new(a.width(), a.height(), 3, data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pictures_of_a_sheet_are_those_of_a_smaller_sheet() {
        use dyweight_files::image::contact_sheet;
        let tile = |v: usize| Image::new(9, 8, 1, vec![v as u8; 72]).unwrap();
        let tiles: Vec<Image> = (0..64).map(tile).collect();
        let few: Vec<Image> = [0, 1, 8, 9].map(tile).to_vec();
        let sheet = contact_sheet(&tiles, 8, 1).unwrap();
        assert_eq!(first_of(&sheet, [1, 8, 9], 2), contact_sheet(&few, 2, 1).unwrap());
        assert_eq!(first_of(&sheet, [1, 8, 9], 20), sheet);
    }

    #[test]
    fn a_difference_is_white_where_there_is_none() {
        let grey = |v: [u8; 2]| Image::new(2, 1, 1, v.to_vec()).unwrap();
        let found = difference(&grey([10, 200]), &grey([10, 190])).unwrap();
        assert_eq!(found.data(), [255, 255, 255, 225, 225, 225]);
        assert!(difference(&grey([0, 0]), &Image::new(1, 1, 1, vec![0]).unwrap()).is_none());
    }
}
