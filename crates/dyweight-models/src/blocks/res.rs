//! The residual block of latent diffusion (Rombach et al. 2022), in U-Nets and, without its middle line, autoencoders.
//!
//! ```text
//! h = conv1(silu(norm1(x)))
//! h = h + time(e)                       e: the time vector after silu
//! y = conv2(silu(norm2(h))) + shortcut(x)          shortcut: 1×1 where the number of channels changes, else x itself
//! ```

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, Conv2d, ConvAlgo, ConvSpec, GroupNorm, Linear, Modulation, NormStats};
use std::sync::Arc;

/// Sizes of a residual block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResSize {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Width of the time vector; none for autoencoders.
    pub(crate) time: Option<usize>,
    /// Groups and ε of the normalisations.
    pub(crate) norm: (usize, f32),
}

/// A residual block.
pub(crate) struct Res {
    norm1: GroupNorm,
    conv1: Conv2d,
    time: Option<Linear>,
    norm2: GroupNorm,
    conv2: Conv2d,
    shortcut: Option<Conv2d>,
}

/// What the way back needs.
#[derive(Clone)]
pub(crate) struct ResTape {
    x: Arc<Act>,
    stats1: NormStats,
    h: Act,
    time: Option<Act>,
    stats2: NormStats,
}

impl Res {
    pub(crate) fn new(scope: &Scope<'_>, size: ResSize, algo: ConvAlgo) -> Result<Self> {
        let ResSize { inputs, outputs, time, norm } = size;
        let conv =
            |name: &str, from: usize, kernel: usize| scope.conv(name, ConvSpec::same(from, outputs, kernel, algo));
        Ok(Self {
            norm1: scope.group_norm("norm1", inputs, norm, Activation::Silu)?,
            conv1: conv("conv1", inputs, 3)?,
            time: time.map(|width| scope.exact().linear("time_emb_proj", width, outputs)).transpose()?,
            norm2: scope.group_norm("norm2", outputs, norm, Activation::Silu)?,
            conv2: conv("conv2", outputs, 3)?,
            shortcut: (inputs != outputs).then(|| conv("conv_shortcut", inputs, 1)).transpose()?,
        })
    }

    /// The output for input `x` and time vector `e`.
    pub(crate) fn forward(&self, x: Arc<Act>, e: Option<&Act>, record: bool) -> (Act, Option<ResTape>) {
        let (active, stats1) = self.norm1.forward(&x, Modulation::None);
        let direct = self.shortcut.as_ref().map(|shortcut| shortcut.forward(&x));
        // Nothing is held that is not needed any more: a large image's activation is a large part of all memory.
        let x = (record || direct.is_none()).then_some(x);
        let h = self.conv1.forward(&active);
        drop(active);
        let time = self.time.as_ref().zip(e).map(|(time, e)| time.forward(e));
        let (active, stats2) = self.norm2.forward(&h, modulation(time.as_ref()));
        let h = record.then_some(h);
        let residual = direct.as_ref().or(x.as_deref()).expect("x is kept where there is no shortcut");
        let y = self.conv2.forward_residual(&active, residual, 1.0);
        let tape = x.zip(h).map(|(x, h)| ResTape { x, stats1, h, time, stats2 });
        (y, tape)
    }

    /// The gradient of the input, and of the time vector, from that of the output.
    pub(crate) fn backward(&self, tape: ResTape, gy: &Act) -> (Act, Option<Act>) {
        let ResTape { x, stats1, h, time, stats2 } = tape;
        let to_active = self.conv2.backward(gy, gy.size());
        let to_h = self.norm2.backward(&h, &stats2, modulation(time.as_ref()), &to_active, None);
        drop((to_active, h));
        let to_e = self.time.as_ref().zip(to_h.modulation.as_ref()).map(|(time, g)| time.backward(g));
        let to_active = self.conv1.backward(&to_h.x, gy.size());
        drop(to_h);
        let direct = self.shortcut.as_ref().map(|shortcut| shortcut.backward(gy, gy.size()));
        let direct = direct.as_ref().unwrap_or(gy);
        (self.norm1.backward(&x, &stats1, Modulation::None, &to_active, Some((direct, 1.0))).x, to_e)
    }
}

fn modulation(time: Option<&Act>) -> Modulation<'_> {
    time.map_or(Modulation::None, Modulation::Bias)
}
