//! The network: levels of blocks, walked forwards and, with what was kept, backwards.

use super::config::UnetConfig;
use super::mixer::{Mixer, MixerTape};
use super::time::{TimeEmbedding, TimeTape, Waves};
use crate::arithmetic::Arithmetic;
use crate::blocks::{Res, ResSize, ResTape};
use crate::weights::{Found, Pages, Scope, Source, TensorPlan};
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, Activation, Conv2d, ConvAlgo, ConvSpec, Dtype, GroupNorm, Modulation, NormStats, Shape, concat, split,
    upsample_nearest, upsample_nearest_backward,
};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A U-Net with its weights.
pub struct Unet {
    config: UnetConfig,
    time: TimeEmbedding,
    conv_in: Conv2d,
    down: Vec<Level>,
    middle: (Res, Mixer, Res),
    up: Vec<Level>,
    norm_out: GroupNorm,
    conv_out: Conv2d,
    /// As they are stored.
    weight_bytes: u64,
    /// Where its layers' weights lie, in the order they run.
    pages: Vec<Pages>,
    /// Whether the weights have yet to be read from the disk.
    unread: AtomicBool,
}

/// Blocks of one size, and the convolution that leads to the next.
struct Level {
    layers: Vec<(Res, Option<Mixer>)>,
    resample: Option<Conv2d>,
}

/// What the layers kept on the way forward.
#[derive(Clone)]
pub(crate) struct UnetTape {
    time: TimeTape,
    down: Vec<Vec<LayerTape>>,
    /// Rows and columns at each level.
    sizes: Vec<[usize; 2]>,
    middle: (ResTape, Option<MixerTape>, ResTape),
    up: Vec<Vec<(usize, LayerTape)>>,
    last: Act,
    stats: NormStats,
}

type LayerTape = (ResTape, Option<MixerTape>);

impl Unet {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub fn load(found: &Found<UnetConfig>, arithmetic: Arithmetic) -> Result<(Self, String)> {
        let Found { config, set, layout } = found;
        let build = |scope: &Scope<'_>| Self::new(config, scope, arithmetic);
        // Before the network is there: a plan has layers too.
        let weight_bytes = Source::weigh("U-Net", &Source::plan(build)?, set, layout)?.bytes;
        let (unet, hash) = Source::build("U-Net", set, layout, build)?;
        Ok((Self { weight_bytes, ..unet }, hash))
    }

    /// A network with random weights, the same for the same seed: for tests and speed measurements.
    pub fn random(config: &UnetConfig, (seed, dtype): (u64, Dtype), arithmetic: impl Into<Arithmetic>) -> Result<Self> {
        let numbers: usize = Self::plan(config)?.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        let unet = Self::new(config, &Source::Random { seed, dtype }.root(), arithmetic.into())?;
        Ok(Self { weight_bytes: (numbers * dtype.size()) as u64, ..unet })
    }

    /// The tensors of a configuration.
    pub fn plan(config: &UnetConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope, ConvAlgo::Direct.into()))
    }

    fn new(config: &UnetConfig, scope: &Scope<'_>, arithmetic: Arithmetic) -> Result<Self> {
        let (scope, algo) = (&scope.in_precision(arithmetic.precision), arithmetic.conv);
        let (widths, levels, time) = (&config.widths, config.widths.len(), config.time_width());
        let norm = (config.groups, config.eps as f32);
        let res = |scope: Scope<'_>, inputs: usize, outputs: usize| {
            Res::new(&scope, ResSize { inputs, outputs, time: Some(time), norm }, algo)
        };
        let waves = Waves::new(widths[0], config.frequency_shift, config.cosines_first);
        let embedding = TimeEmbedding::new(&scope.exact().at("time_embedding"), waves, [widths[0], time])?;
        let conv_in = scope.exact().conv("conv_in", ConvSpec::same(config.inputs, widths[0], 3, algo))?;
        let mut pages = vec![scope.pages()];

        let (mut channels, mut skips) = (widths[0], vec![widths[0]]);
        let mut down = Vec::new();
        // The level is also a part of names, and the last one is different.
        #[allow(clippy::needless_range_loop)]
        for level in 0..levels {
            let (at, width) = (scope.at("down_blocks").at(level), widths[level]);
            let mut layers = Vec::new();
            for j in 0..config.layers {
                let block = res(at.at("resnets").at(j), channels, width)?;
                let mixer = || Mixer::new(&at.at("attentions").at(j), config, level);
                layers.push((block, config.down_attends[level].then(mixer).transpose()?));
                pages.push(scope.pages());
                channels = width;
                skips.push(width);
            }
            let halve = || at.conv("downsamplers.0.conv", ConvSpec::same(width, width, 3, algo).with_stride(2));
            let resample = (level + 1 < levels).then(halve).transpose()?;
            skips.extend(resample.is_some().then_some(width));
            down.push(Level { layers, resample });
        }
        let at = scope.at("mid_block");
        let middle = (
            res(at.at("resnets.0"), channels, channels)?,
            Mixer::new(&at.at("attentions.0"), config, levels - 1)?,
            res(at.at("resnets.1"), channels, channels)?,
        );
        pages.push(scope.pages());
        let mut up = Vec::new();
        for i in 0..levels {
            let (at, level) = (scope.at("up_blocks").at(i), levels - 1 - i);
            let width = widths[level];
            let mut layers = Vec::new();
            for j in 0..=config.layers {
                let skip = skips.pop().unwrap_or(0);
                let block = res(at.at("resnets").at(j), channels + skip, width)?;
                let mixer = || Mixer::new(&at.at("attentions").at(j), config, level);
                layers.push((block, config.up_attends[i].then(mixer).transpose()?));
                pages.push(scope.pages());
                channels = width;
            }
            let double = || at.conv("upsamplers.0.conv", ConvSpec::same(width, width, 3, algo));
            up.push(Level { layers, resample: (level > 0).then(double).transpose()? });
        }
        let norm_out = scope.group_norm("conv_norm_out", widths[0], norm, Activation::Silu)?;
        let conv_out = scope.exact().conv("conv_out", ConvSpec::same(widths[0], config.outputs, 3, algo))?;
        pages.push(scope.pages());
        Ok(Self {
            time: embedding,
            conv_in,
            down,
            middle,
            up,
            norm_out,
            conv_out,
            config: config.clone(),
            weight_bytes: 0,
            pages,
            unread: AtomicBool::new(true),
        })
    }

    /// Runs it once on one sample of zeros of this size: to see what that costs.
    pub fn measure_once(&self, [h, w]: [usize; 2], gradient: bool) {
        let x = Act::zeros(Shape { n: 1, h, w, c: self.config.inputs });
        let context = self.config.context.map(|width| Act::zeros(Shape::tokens(1, 77, width)));
        let (y, tape) = self.forward(&x, vec![500.0], context.as_ref(), gradient);
        if let Some(tape) = tape {
            self.backward(tape, &y);
        }
    }

    /// Bytes of its weights.
    pub(crate) fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Where its weights lie.
    pub(crate) fn pages(&self) -> &[Pages] {
        &self.pages
    }

    /// What it was built from.
    pub fn config(&self) -> &UnetConfig {
        &self.config
    }

    /// The prediction for latents `x`, one time per sample and their contexts `[n, 1, tokens, width]`; with a tape if
    /// it is to be differentiated. Rows and columns must be multiples of `UnetConfig::granularity`.
    pub(crate) fn forward(&self, x: &Act, t: Vec<f32>, context: Option<&Act>, record: bool) -> (Act, Option<UnetTape>) {
        let unread = self.unread.swap(false, Ordering::Relaxed);
        // The first call reads the file: what a layer needs is asked for while the one before it runs.
        let ahead = RefCell::new(self.pages[1..].iter().take_while(|_| unread));
        let fetch_next = || ahead.borrow_mut().next().into_iter().for_each(Pages::fetch);
        fetch_next();
        let (e, time) = self.time.forward(t);
        let run = |(res, mixer): &(Res, Option<Mixer>), x: Arc<Act>| {
            fetch_next();
            let (mut h, res) = res.forward(x, Some(&e), record);
            let mut tape = None;
            if let Some(mixer) = mixer {
                (h, tape) = mixer.forward(h, context, record);
            }
            (h, res.map(|res| (res, tape)))
        };
        let mut h = Arc::new(self.conv_in.forward(x));
        let mut skips = vec![h.clone()];
        let (mut down, mut sizes) = (Vec::new(), Vec::new());
        for level in &self.down {
            let mut tapes = Vec::new();
            for layer in &level.layers {
                let (y, tape) = run(layer, h);
                h = Arc::new(y);
                skips.push(h.clone());
                tapes.extend(tape);
            }
            sizes.push(h.size());
            if let Some(halve) = &level.resample {
                h = Arc::new(halve.forward(&h));
                skips.push(h.clone());
            }
            down.push(tapes);
        }
        fetch_next();
        let (first, mixer, second) = &self.middle;
        let (y, first) = first.forward(h, Some(&e), record);
        let (y, mixed) = mixer.forward(y, context, record);
        let (mut h, second) = second.forward(Arc::new(y), Some(&e), record);
        let mut up = Vec::new();
        for level in &self.up {
            let mut tapes = Vec::new();
            for layer in &level.layers {
                let skip = skips.pop().expect("as many skips as blocks on the way up");
                let joined = Arc::new(concat(&[&h, &skip]));
                let channels = skip.shape().c;
                drop((skip, h));
                let (y, tape) = run(layer, joined);
                h = y;
                tapes.extend(tape.map(|tape| (channels, tape)));
            }
            if let Some(conv) = &level.resample {
                h = conv.forward(&upsample_nearest(&h));
            }
            up.push(tapes);
        }
        let (active, stats) = self.norm_out.forward(&h, Modulation::None);
        let out = self.conv_out.forward(&active);
        let tape = first.zip(second).map(|(first, second)| {
            let middle = (first, mixed, second);
            UnetTape { time, down, sizes, middle, up, last: h, stats }
        });
        (out, tape)
    }

    /// Derivatives of a loss in the latents and in each sample's time, from its derivative in the prediction.
    pub(crate) fn backward(&self, tape: UnetTape, gradient: &Act) -> (Act, Vec<f64>) {
        let UnetTape { time, down, sizes, middle, up, last, stats } = tape;
        let mut to_e: Option<Act> = None;
        let mut pull = |(res, mixer): &(Res, Option<Mixer>), (tape, mixed): LayerTape, mut g: Act| {
            if let (Some(mixer), Some(mixed)) = (mixer, mixed) {
                g = mixer.backward(mixed, &g);
            }
            let (g, e) = res.backward(tape, &g);
            collect(&mut to_e, e);
            g
        };
        let to_active = self.conv_out.backward(gradient, last.size());
        let mut g = self.norm_out.backward(&last, &stats, Modulation::None, &to_active, None).x;
        drop((last, to_active));
        let mut to_skips = Vec::new();
        for (level, tapes) in self.up.iter().zip(up).rev() {
            if let Some(conv) = &level.resample {
                g = upsample_nearest_backward(&conv.backward(&g, g.size()));
            }
            for (layer, (channels, tape)) in level.layers.iter().zip(tapes).rev() {
                let joined = pull(layer, tape, g);
                let mut parts = split(&joined, &[joined.shape().c - channels, channels]);
                to_skips.extend(parts.pop());
                g = parts.pop().expect("two parts");
            }
        }
        let (first, mixer, second) = &self.middle;
        let (to_mixed, e) = second.backward(middle.2, &g);
        g = middle.1.map_or(to_mixed.clone(), |tape| mixer.backward(tape, &to_mixed));
        let mut sum_of_e = e;
        let (to_h, e) = first.backward(middle.0, &g);
        g = to_h;
        collect(&mut sum_of_e, e);
        let mut add_skip = |g: &mut Act| {
            if let Some(skip) = to_skips.pop() {
                g.add_assign(&skip);
            }
        };
        for ((level, tapes), size) in self.down.iter().zip(down).zip(sizes).rev() {
            if let Some(halve) = &level.resample {
                add_skip(&mut g);
                g = halve.backward(&g, size);
            }
            for (layer, tape) in level.layers.iter().zip(tapes).rev() {
                add_skip(&mut g);
                g = pull(layer, tape, g);
            }
        }
        add_skip(&mut g);
        collect(&mut to_e, sum_of_e);
        let size = g.size();
        let to_e = to_e.expect("every network has blocks");
        (self.conv_in.backward(&g, size), self.time.backward(time, &to_e))
    }
}

/// Adds to a sum that may not have begun.
fn collect(sum: &mut Option<Act>, more: Option<Act>) {
    match (sum.as_mut(), more) {
        (Some(sum), Some(more)) => sum.add_assign(&more),
        (None, more) => *sum = more,
        (Some(_), None) => {}
    }
}
