//! Rows of a table, by number: the embedding of token ids. Ids have no gradient.

use crate::act::{Act, Shape};
use crate::error::{Error, Result, check_groups, check_positive};
use crate::isa::Isa;
use crate::weights::Weights;

/// A table of vectors with frozen weights.
#[derive(Debug)]
pub struct Embedding(Weights);

impl Embedding {
    /// Copies a table `[rows, width]`.
    pub fn new(rows: usize, width: usize, table: &[f32]) -> Result<Self> {
        Self::from_weights(Weights::from_f32([rows, width], table)?)
    }

    /// Keeps a stored table `[rows, width]` as it is.
    pub fn from_weights(table: Weights) -> Result<Self> {
        check_positive("width of an embedding", table.columns())?;
        Ok(Self(table))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Entries of a vector.
    pub fn width(&self) -> usize {
        self.0.columns()
    }

    /// `n` sequences `[n, 1, ids/n, width]`; an error if an id has no row.
    pub fn forward(&self, n: usize, ids: &[u32]) -> Result<Act> {
        check_groups(ids.len(), n)?;
        let (isa, width) = (Isa::active(), self.width());
        let mut y = Act::stale(Shape::tokens(n, ids.len() / n, width));
        for (to, id) in y.data_mut().chunks_exact_mut(width).zip(ids) {
            let id = *id as usize;
            if id >= self.rows() {
                return Err(Error::Row { rows: self.rows(), found: id });
            }
            self.0.widen_row(isa, id, 0..width, to);
        }
        Ok(y)
    }
}
