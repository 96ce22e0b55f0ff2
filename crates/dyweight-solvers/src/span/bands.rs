//! Weights per band of frequencies.
//!
//! ```text
//! band of the coefficient (u, v) of a cosine transform: how many edges are ≤ √(u² + v²)
//! v⁰ = −Σ_{b>0} v^b,  Σ_b P_b Σⱼ v^b dⱼ = Cᵀ Σⱼ (v^{band} ⊙ C dⱼ)
//!                                                                every slope is transformed once, every step back once
//! ```

use super::cosine::{Cosine, Matrices};
use crate::learned::{Block, require_len};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::Place;
use dyweight_core::tape::{LinearMap, Tape, Var};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// More bands than pictures have use for.
const MOST_EDGES: usize = 15;

/// What the weights of each band are above the mean of all bands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bands<T = f64> {
    /// Frequencies at which bands end, in half periods over the picture.
    pub edges: Vec<f64>,
    /// `[band][step][slope]`, newest last, of every band but the lowest, whose parameters are minus the sum of the
    /// others'.
    pub offsets: Vec<Vec<Vec<T>>>,
}

impl Bands {
    /// The usual edges: good for pictures of 28 to 64 pixels.
    pub const EDGES: [f64; 3] = [3.0, 7.0, 13.0];

    /// Bands with these edges for rows of these widths: all 0.
    pub fn zero(edges: &[f64], widths: &[usize]) -> Self {
        let rows: Vec<Vec<f64>> = widths.iter().map(|width| vec![0.0; *width]).collect();
        Self { edges: edges.to_vec(), offsets: vec![rows; edges.len()] }
    }

    /// How many bands a picture has something in.
    pub fn within(&self, height: usize, width: usize) -> usize {
        let mut found: Vec<usize> = (0..height * width).map(|at| band(&self.edges, at / width, at % width)).collect();
        found.sort_unstable();
        found.dedup();
        found.len()
    }
}

fn band(edges: &[f64], u: usize, v: usize) -> usize {
    let radius = ((u * u + v * v) as f64).sqrt();
    edges.iter().filter(|edge| **edge <= radius).count()
}

impl<T> Bands<T> {
    pub(super) fn name(&self) -> String {
        match self.edges == Bands::EDGES {
            true => "bands".into(),
            false => self.edges.iter().fold("bands".into(), |name, edge| format!("{name}:{edge}")),
        }
    }

    pub(super) fn block(&self) -> Block {
        let weights = self.offsets.first().map_or(0, |rows| rows.iter().map(Vec::len).sum());
        Block::new("band_weight", &[self.offsets.len(), weights])
    }

    /// An error unless edges rise and offsets go with rows of these widths.
    pub fn check(&self, widths: &[usize]) -> Result<()> {
        check_edges(&self.edges)?;
        require_len("span: bands with offsets, one fewer than bands", self.edges.len(), self.offsets.len())?;
        for (b, rows) in self.offsets.iter().enumerate() {
            require_len(&format!("span: rows of band {}", b + 1), widths.len(), rows.len())?;
            for (i, (row, width)) in rows.iter().zip(widths).enumerate() {
                require_len(&format!("span: offsets of band {}, step {i}", b + 1), *width, row.len())?;
            }
        }
        Ok(())
    }
}

/// An error unless edges rise from above 0.
pub(crate) fn check_edges(edges: &[f64]) -> Result<()> {
    let rise = edges.windows(2).all(|pair| pair[0] < pair[1]);
    let proper = edges.iter().all(|edge| edge.is_finite() && *edge > 0.0);
    if rise && proper && (1..=MOST_EDGES).contains(&edges.len()) {
        return Ok(());
    }
    let value = format!("{:.80}", format!("edges {edges:?}"));
    Err(Error::bad_value("span", value, format!("1 to {MOST_EDGES} edges of bands, rising from above 0")))
}

/// y = c_{band}·z, frequency by frequency.
struct Masked {
    /// The band of each coefficient of a channel.
    band: Vec<usize>,
    bands: usize,
}

impl LinearMap for Masked {
    fn apply(&self, coeffs: &[f64], z: &[f64], _: [usize; 3]) -> Vec<f64> {
        let channel = |z: &[f64]| z.iter().zip(&self.band).map(|(z, b)| coeffs[*b] * z).collect::<Vec<_>>();
        z.chunks(self.band.len().max(1)).flat_map(channel).collect()
    }

    fn adjoint(&self, coeffs: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64> {
        self.apply(coeffs, cotangent, shape)
    }

    fn coefficient_adjoint(&self, z: &[f64], cotangent: &[f64], _: [usize; 3]) -> Vec<f64> {
        let mut sums = vec![0.0; self.bands];
        let bands = self.band.iter().cycle();
        z.iter().zip(cotangent).zip(bands).for_each(|((z, g), b)| sums[*b] += z * g);
        sums
    }
}

/// The maps for one size of picture.
struct Maps {
    there: Arc<dyn LinearMap>,
    back: Arc<dyn LinearMap>,
    masked: Arc<dyn LinearMap>,
}

impl Maps {
    fn new(edges: &[f64], height: usize, width: usize) -> Self {
        let matrices = Arc::new(Matrices::new(height, width));
        let band = (0..height * width).map(|at| band(edges, at / width, at % width)).collect();
        Self {
            there: Arc::new(Cosine { matrices: matrices.clone(), inverse: false }),
            back: Arc::new(Cosine { matrices, inverse: true }),
            masked: Arc::new(Masked { band, bands: edges.len() + 1 }),
        }
    }
}

/// What a run remembers.
pub(super) struct BandRun<'s> {
    bands: &'s Bands<Coeff>,
    /// Made at the first step, when the size of the pictures is known.
    maps: Option<Maps>,
    /// Transformed slopes, oldest first, as far as later steps need them.
    waves: Vec<Var>,
}

impl<'s> BandRun<'s> {
    pub fn new(bands: &'s Bands<Coeff>) -> Self {
        Self { bands, maps: None, waves: Vec::new() }
    }

    /// Σ_b P_b Σⱼ v_ij^b dⱼ.
    pub fn weighed(&mut self, tape: &mut Tape<'_>, place: &Place<'_>) -> Result<Var> {
        let [_, _, height, width] = place.x.tensor().shape();
        let maps = self.maps.get_or_insert_with(|| Maps::new(&self.bands.edges, height, width));
        self.waves.extend(place.window.last().map(|newest| tape.apply(&maps.there, &[], newest)));
        let mut parts = Vec::new();
        for (j, wave) in self.waves[self.waves.len() - place.window.len()..].iter().enumerate() {
            let higher: Vec<Coeff> = self.bands.offsets.iter().map(|rows| rows[place.step][j].clone()).collect();
            let offsets = [vec![-Coeff::sum(&higher)], higher].concat();
            parts.push(tape.apply(&maps.masked, &offsets, wave));
        }
        let terms: Vec<(Coeff, &Var)> = parts.iter().map(|part| (Coeff::from(1.0), part)).collect();
        let sum = tape.combine(&terms)?;
        self.waves.drain(..self.waves.len() - place.kept);
        Ok(tape.apply(&maps.back, &[], &sum))
    }
}
