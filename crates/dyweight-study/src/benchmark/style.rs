//! How rows look in charts: a solver has the same colour in every figure of every report.
//!
//! Families have fixed colours; members of one family are told apart by their marks. What is known by no name takes the
//! colours that are left, in the order of the rows.

use super::view::View;

/// Beginnings of names, and the colours of their families.
const FAMILIES: [(&str, usize); 10] = [
    ("dyweight", 0),
    ("ipndm", 1),
    ("dpmsolver2", 7),
    ("dpm2", 7),
    ("dpm", 2),
    ("unipc", 3),
    ("euler", 4),
    ("ddim", 4),
    ("heun", 5),
    ("deis", 6),
];
/// As many as there are.
const COLOURS: usize = 8;

/// Numbers of a row's colour and mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowStyle {
    pub colour: usize,
    pub mark: usize,
}

/// The styles of rows by name; `is_learned` of each.
fn row_styles(rows: &[(&str, bool)]) -> Vec<RowStyle> {
    let family = |name: &str| {
        let letters: String =
            name.chars().filter(|c| c.is_alphanumeric() || *c == '+').flat_map(char::to_lowercase).collect();
        FAMILIES.iter().find(|(start, _)| letters.starts_with(start)).map(|(_, colour)| *colour)
    };
    // Of learned solvers the first that has no name of its own stands for DyWeight.
    let has_dyweight = rows.iter().any(|(name, _)| family(name) == Some(0));
    let mut stand_in =
        rows.iter().position(|(name, learned)| *learned && family(name).is_none()).filter(|_| !has_dyweight);
    let taken: Vec<usize> = rows.iter().filter_map(|(name, _)| family(name)).chain(stand_in.map(|_| 0)).collect();
    let mut free = (0..COLOURS).filter(|colour| !taken.contains(colour)).chain((0..COLOURS).cycle());
    let mut found: Vec<RowStyle> = Vec::new();
    for (index, (name, _)) in rows.iter().enumerate() {
        let known = family(name).or_else(|| stand_in.take_if(|first| *first == index).map(|_| 0));
        let colour = known.unwrap_or_else(|| free.next().unwrap_or(0));
        let others = found.iter().filter(|look| look.colour == colour).count();
        // The family's own mark first.
        found.push(RowStyle { colour, mark: colour + others });
    }
    found
}

impl View<'_> {
    /// The style of each row.
    pub(super) fn row_styles(&self) -> Vec<RowStyle> {
        row_styles(&self.rows().into_iter().map(|row| (row, self.is_learned(row))).collect::<Vec<_>>())
    }

    /// The style of one row.
    pub(super) fn row_style(&self, row: &str) -> RowStyle {
        let place = self.rows().iter().position(|other| *other == row);
        place.map_or(RowStyle { colour: 0, mark: 0 }, |place| self.row_styles()[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(rows: &[(&str, bool)]) -> Vec<usize> {
        row_styles(rows).iter().map(|look| look.colour).collect()
    }

    #[test]
    fn a_solver_has_its_colour_whoever_else_is_there() {
        assert_eq!(colours(&[("DyWeight", true), ("iPNDM-3", false), ("Heun", false)]), [0, 1, 5]);
        assert_eq!(
            colours(&[("heun+afs", false), ("ipndm:3", false), ("dpmpp:2@logsnr", false), ("spiral", true)]),
            [5, 1, 2, 0]
        );
        assert_eq!(colours(&[("UniPC-2", false), ("DPM-Solver++(2M)", false), ("DPM-Solver-2", false)]), [3, 2, 7]);
    }

    #[test]
    fn bars_side_by_side_have_colours_of_their_own() {
        assert_eq!(
            colours(&[("learned on mixture", true), ("learned on fashion", true), ("iPNDM-3", false)]),
            [0, 2, 1]
        );
    }

    #[test]
    fn members_of_a_family_differ_in_their_marks_and_strangers_take_what_is_left() {
        let rows = [
            ("iPNDM-3", false),
            ("iPNDM-4", false),
            ("without time shift", true),
            ("without scales", true),
            ("DyWeight", true),
        ];
        let found = row_styles(&rows);
        assert_eq!(found[0].colour, found[1].colour);
        assert_ne!(found[0].mark, found[1].mark);
        assert_eq!(found.iter().map(|l| l.colour).collect::<Vec<_>>(), [1, 1, 2, 3, 0]);
    }
}
