//! The middle of encoder and decoder: Res, attention of one head, Res.

use super::config::AutoencoderConfig;
use crate::blocks::{Attend, AttendTape, Res, ResSize, ResTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, ConvAlgo, GroupNorm, Modulation, NormStats};
use std::sync::Arc;

/// ε of every normalisation in an autoencoder.
pub(super) const EPS: f32 = 1e-6;
const NAMES: [&str; 4] = ["to_q", "to_k", "to_v", "to_out.0"];

/// The middle.
pub(super) struct Middle {
    first: Res,
    attention: Option<(GroupNorm, Attend)>,
    second: Res,
}

/// What the way back needs.
pub(super) struct MiddleTape {
    first: ResTape,
    attention: Option<(Act, NormStats, AttendTape)>,
    second: ResTape,
}

impl Middle {
    pub(super) fn new(scope: &Scope<'_>, config: &AutoencoderConfig, algo: ConvAlgo) -> Result<Self> {
        let c = config.widths[config.widths.len() - 1];
        let size = ResSize { inputs: c, outputs: c, time: None, norm: (config.groups, EPS) };
        let attention = || -> Result<(GroupNorm, Attend)> {
            let at = scope.at("attentions.0");
            let norm = at.group_norm("group_norm", c, (config.groups, EPS), Activation::None)?;
            Ok((norm, Attend::new(&at, NAMES, [c, c], 1, true)?))
        };
        Ok(Self {
            first: Res::new(&scope.at("resnets.0"), size, algo)?,
            attention: config.attends.then(attention).transpose()?,
            second: Res::new(&scope.at("resnets.1"), size, algo)?,
        })
    }

    pub(super) fn forward(&self, x: Act, record: bool) -> (Act, Option<MiddleTape>) {
        let (mut h, first) = self.first.forward(Arc::new(x), None, record);
        let mut attended = None;
        if let Some((norm, attend)) = &self.attention {
            let (normed, stats) = norm.forward(&h, Modulation::None);
            let (y, tape) = attend.forward(&normed, &normed, &h, record);
            attended = tape.map(|tape| (h, stats, tape));
            h = y;
        }
        let (y, second) = self.second.forward(Arc::new(h), None, record);
        (y, first.zip(second).map(|(first, second)| MiddleTape { first, attention: attended, second }))
    }

    pub(super) fn backward(&self, tape: MiddleTape, gy: &Act) -> Act {
        let MiddleTape { first, attention, second } = tape;
        let (mut g, _) = self.second.backward(second, gy);
        if let (Some((norm, attend)), Some((h, stats, tape))) = (&self.attention, attention) {
            let to_normed = attend.backward_self(tape, &g);
            g = norm.backward(&h, &stats, Modulation::None, &to_normed, Some((&g, 1.0))).x;
        }
        self.first.backward(first, &g).0
    }
}
