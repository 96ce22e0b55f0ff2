//! A part of a model at given inputs, by name: how to check a conversion against its origin.
//!
//! ```text
//! unet   x, t [, context]  → eps [, grad_x, grad_t with cotangent]
//! vae    latents           → image [, grad_latents with cotangent]; with a codebook also indices, quantised,
//!        image_not_quantised
//!        image             → encoded_mean, or with a codebook encoded_prequant
//! text   ids               → last_hidden_state, pooled
//! text2  ids               → last_hidden_state
//! transformer  x [n, tokens, inputs], t, context, pooled [, guidance], img_ids, txt_ids → velocity [, grad_x, grad_t]
//! clip   pixel_values, ids → image_features, text_features, score_100cos, grad_pixels_of_score_sum
//! ```
//!
//! Latents of an autoencoder are its own, without the scaling of a denoiser's samples.

use super::bundle::Bundle;
use crate::arithmetic::{Arithmetic, refuse_unused};
use crate::autoencoder::{Autoencoder, Halves};
use crate::clip::TextTower;
use crate::flux::{Flux, FluxInput};
use crate::t5::T5;
use crate::unet::Unet;
use dyweight_core::error::{Error, Result};
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_nn::{Act, ConvAlgo, Precision, Shape, split};
use std::path::Path;

/// Parts that can be probed.
pub const PARTS: [&str; 6] = ["unet", "transformer", "vae", "text", "text2", "clip"];

/// Evaluates a part of `bundle` at the tensors of `file`, which came from `path`; the fingerprint is of the part's
/// weights.
pub fn probe(
    bundle: &Bundle,
    part: &str,
    (path, file): (&Path, &TensorFile),
    arithmetic: impl Into<Arithmetic>,
) -> Result<(TensorFile, String)> {
    let (input, arithmetic) = (Input { path, file }, arithmetic.into());
    let precision = arithmetic.precision;
    if ["vae", "text", "clip"].contains(&part) {
        refuse_unused(precision, part)?;
    }
    match part {
        "unet" => unet(bundle, &input, arithmetic),
        "vae" => autoencoder(bundle, &input, arithmetic.conv),
        "transformer" => transformer(bundle, &input, precision),
        "text" => text(bundle, &input),
        "text2" => text2(bundle, &input, precision),
        "clip" => clip(bundle, &input),
        _ => Err(Error::unknown_name("part", part, PARTS)),
    }
}

fn unet(bundle: &Bundle, input: &Input<'_>, arithmetic: Arithmetic) -> Result<(TensorFile, String)> {
    let (unet, hash) = Unet::load(&bundle.unet()?, arithmetic)?;
    let (config, x) = (unet.config(), input.image("x")?);
    let (n, step) = (x.shape().n, config.granularity());
    let up = |size: usize| size.div_ceil(step) * step;
    input.require("x", &[n, config.inputs, up(x.shape().h), up(x.shape().w)])?;
    input.require("t", &[n])?;
    let times = input.numbers("t")?;
    let context = match config.context {
        Some(width) => {
            let tokens = input.tensor("context")?.shape().get(1).copied().unwrap_or(1).max(1);
            input.require("context", &[n, tokens, width])?;
            Some(Act::from_nhwc(Shape::tokens(n, tokens, width), &input.numbers("context")?))
        }
        None => None,
    };
    let cotangent = input.optional_image("cotangent")?;
    let (eps, tape) = unet.forward(&x, times, context.as_ref(), cotangent.is_some());
    let mut output = Output::default();
    output.image("eps", &eps)?;
    if let (Some(cotangent), Some(tape)) = (cotangent, tape) {
        input.require("cotangent", &nchw(eps.shape()))?;
        let (to_x, to_t) = unet.backward(tape, &cotangent);
        output.image("grad_x", &to_x)?;
        output.numbers("grad_t", &[n], to_t)?;
    }
    Ok((output.0, hash))
}

fn autoencoder(bundle: &Bundle, input: &Input<'_>, conv: ConvAlgo) -> Result<(TensorFile, String)> {
    let encodes = input.file.tensors.contains_key("image");
    let (autoencoder, hash) =
        Autoencoder::load(bundle.autoencoder()?, conv, if encodes { Halves::Both } else { Halves::Decoder })?;
    let mut output = Output::default();
    if input.file.tensors.contains_key("latents") {
        decode(&autoencoder, input, &mut output)?;
    }
    if encodes {
        encode(&autoencoder, input, &mut output)?;
    }
    Ok((output.0, hash))
}

fn decode(autoencoder: &Autoencoder, input: &Input<'_>, output: &mut Output) -> Result<()> {
    let z = input.image("latents")?;
    let Shape { n, h, w, .. } = z.shape();
    input.require("latents", &[n, autoencoder.config().latents, h, w])?;
    let quantised = autoencoder.quantise(&z);
    if let Some((rounded, indices)) = &quantised {
        output.image("quantised", rounded)?;
        output.image("image_not_quantised", &autoencoder.decode(&z, false).0)?;
        let indices: Vec<i64> = indices.iter().map(|index| *index as i64).collect();
        output.insert("indices", StoredTensor::from_i64(&[n, h, w], &indices))?;
    }
    let cotangent = input.optional_image("cotangent")?;
    let z = quantised.map_or(z, |(rounded, _)| rounded);
    let (image, tape) = autoencoder.decode(&z, cotangent.is_some());
    output.image("image", &image)?;
    if let (Some(cotangent), Some(tape)) = (cotangent, tape) {
        input.require("cotangent", &nchw(image.shape()))?;
        output.image("grad_latents", &autoencoder.decode_backward(tape, &cotangent))?;
    }
    Ok(())
}

fn encode(autoencoder: &Autoencoder, input: &Input<'_>, output: &mut Output) -> Result<()> {
    let image = input.image("image")?;
    let (config, Shape { n, h, w, .. }) = (autoencoder.config(), image.shape());
    let up = |size: usize| size.div_ceil(config.factor()) * config.factor();
    input.require("image", &[n, config.images, up(h), up(w)])?;
    let Some(moments) = autoencoder.encode(&image) else { return Ok(()) };
    match config.codebook {
        Some(_) => output.image("encoded_prequant", &moments),
        None => output.image("encoded_mean", &split(&moments, &[config.latents; 2])[0]),
    }
}

fn text(bundle: &Bundle, input: &Input<'_>) -> Result<(TensorFile, String)> {
    let (tower, hash) = TextTower::load(&bundle.text()?)?;
    let (n, ids) = input.ids("ids")?;
    let encoded = tower.encode(n, &ids)?;
    let mut output = Output::default();
    output.rows("last_hidden_state", &[n, ids.len() / n, tower.config().stack.width], &encoded.last)?;
    output.rows("pooled", &[n, tower.config().stack.width], &encoded.pooled)?;
    Ok((output.0, hash))
}

fn text2(bundle: &Bundle, input: &Input<'_>, precision: Precision) -> Result<(TensorFile, String)> {
    let (encoder, hash) = T5::load(&bundle.text2()?, precision)?;
    let (n, ids) = input.ids("ids")?;
    let mut output = Output::default();
    output.rows("last_hidden_state", &[n, ids.len() / n, encoder.config().width], &encoder.encode(n, &ids)?)?;
    Ok((output.0, hash))
}

fn transformer(bundle: &Bundle, input: &Input<'_>, precision: Precision) -> Result<(TensorFile, String)> {
    let (flux, hash) = Flux::load(&bundle.transformer()?, precision)?;
    let config = flux.config();
    let n = input.tensor("x")?.shape().first().copied().unwrap_or(0).max(1);
    let (tokens, context) = (input.tokens("x", n, config.inputs)?, input.tokens("context", n, config.context)?);
    let counts = [context.shape().pixels(), tokens.shape().pixels()];
    let vectors = [("t", vec![n]), ("pooled", vec![n, config.pooled]), ("txt_ids", vec![counts[0], 3])];
    vectors.iter().try_for_each(|(name, shape)| input.require(name, shape))?;
    input.require("img_ids", &[counts[1], 3])?;
    let guidance = match config.guidance {
        true => {
            input.require("guidance", &[n])?;
            input.numbers("guidance")?
        }
        false => Vec::new(),
    };
    let positions = [input.numbers("txt_ids")?, input.numbers("img_ids")?].concat();
    let positions: Vec<f64> = positions.into_iter().map(f64::from).collect();
    let pooled = Act::from_rows(n, &input.numbers("pooled")?);
    let question = FluxInput {
        tokens: &tokens,
        t: &input.numbers("t")?,
        guidance: &guidance,
        context: &context,
        pooled: &pooled,
        positions: &positions,
    };
    let differentiates = input.file.tensors.contains_key("cotangent");
    let (velocity, tape) = flux.forward(&question, differentiates);
    let mut output = Output::default();
    output.rows("velocity", &[n, counts[1], config.outputs], &velocity)?;
    if let Some(tape) = tape {
        input.require("cotangent", &[n, counts[1], config.outputs])?;
        let (to_x, to_t) = flux.backward(tape, &input.tokens("cotangent", n, config.outputs)?);
        output.rows("grad_x", &[n, counts[1], config.inputs], &to_x)?;
        output.numbers("grad_t", &[n], to_t)?;
    }
    Ok((output.0, hash))
}

fn clip(bundle: &Bundle, input: &Input<'_>) -> Result<(TensorFile, String)> {
    let (clip, hash) = bundle.clip()?;
    let (n, ids) = input.ids("ids")?;
    let pixels = input.image("pixel_values")?;
    let size = clip.config().vision.size;
    input.require("pixel_values", &[n, clip.config().vision.channels, size, size])?;
    let scored = clip.score(&pixels, &ids)?;
    let mut output = Output::default();
    let features = clip.config().features;
    output.rows("image_features", &[n, features], &scored.image_features)?;
    output.rows("text_features", &[n, features], &scored.text_features)?;
    output.numbers("score_100cos", &[n], scored.scores)?;
    output.image("grad_pixels_of_score_sum", &scored.to_pixels)?;
    Ok((output.0, hash))
}

fn nchw(shape: Shape) -> [usize; 4] {
    [shape.n, shape.c, shape.h, shape.w]
}

/// Tensors to evaluate at.
struct Input<'i> {
    path: &'i Path,
    file: &'i TensorFile,
}

impl Input<'_> {
    fn tensor(&self, name: &str) -> Result<&StoredTensor> {
        self.file.tensor(name).map_err(|p| Error::malformed(self.path, p))
    }

    fn require(&self, name: &str, expected: &[usize]) -> Result<()> {
        let found = self.tensor(name)?.shape();
        if found == expected { Ok(()) } else { Err(self.misshapen(name, expected.to_vec(), found)) }
    }

    fn misshapen(&self, name: &str, expected: Vec<usize>, found: &[usize]) -> Error {
        Error::Shape { what: self.described(name), expected, found: found.to_vec() }
    }

    fn described(&self, name: &str) -> String {
        format!("tensor '{name}' in {}", self.path.display())
    }

    fn numbers(&self, name: &str) -> Result<Vec<f32>> {
        let numbers = self.tensor(name)?.to_f32();
        match numbers.iter().position(|v| !v.is_finite()) {
            None => Ok(numbers),
            Some(index) => Err(Error::NotFinite { what: self.described(name), index, value: numbers[index].into() }),
        }
    }

    fn image(&self, name: &str) -> Result<Act> {
        let shape = self.tensor(name)?.shape();
        let [n, c, h, w] = <[usize; 4]>::try_from(shape)
            .ok()
            .filter(|shape| !shape.contains(&0))
            .ok_or_else(|| self.misshapen(name, vec![1, 1, 1, 1], shape))?;
        Ok(Act::from_nchw(Shape { n, h, w, c }, &self.numbers(name)?))
    }

    /// Tokens of `n` samples, of this width.
    fn tokens(&self, name: &str, n: usize, width: usize) -> Result<Act> {
        let count = self.tensor(name)?.shape().get(1).copied().unwrap_or(1).max(1);
        self.require(name, &[n, count, width])?;
        Ok(Act::from_nhwc(Shape::tokens(n, count, width), &self.numbers(name)?))
    }

    fn optional_image(&self, name: &str) -> Result<Option<Act>> {
        self.file.tensors.contains_key(name).then(|| self.image(name)).transpose()
    }

    /// Token numbers of equally long texts, and how many texts.
    fn ids(&self, name: &str) -> Result<(usize, Vec<u32>)> {
        let tensor = self.tensor(name)?;
        let &[n, count] = tensor.shape() else { return Err(self.misshapen(name, vec![1, 77], tensor.shape())) };
        if n == 0 || count == 0 {
            return Err(self.misshapen(name, vec![1, 77], tensor.shape()));
        }
        let id = |v: f64| {
            (v.fract() == 0.0 && (0.0..4e9).contains(&v))
                .then_some(v as u32)
                .ok_or_else(|| Error::bad_value("ids", v, "token numbers are whole and not negative"))
        };
        Ok((n, tensor.to_f64().into_iter().map(id).collect::<Result<_>>()?))
    }
}

/// What is found.
#[derive(Default)]
struct Output(TensorFile);

impl Output {
    fn insert(
        &mut self,
        name: &str,
        tensor: std::result::Result<StoredTensor, dyweight_files::Malformed>,
    ) -> Result<()> {
        let tensor = tensor.map_err(|p| Error::malformed(Path::new(name), p))?;
        self.0.tensors.insert(name.into(), tensor);
        Ok(())
    }

    fn image(&mut self, name: &str, act: &Act) -> Result<()> {
        self.insert(name, StoredTensor::from_f32(&nchw(act.shape()), &act.to_nchw()))
    }

    fn rows(&mut self, name: &str, shape: &[usize], act: &Act) -> Result<()> {
        self.insert(name, StoredTensor::from_f32(shape, act.data()))
    }

    fn numbers(&mut self, name: &str, shape: &[usize], values: Vec<f64>) -> Result<()> {
        self.insert(name, StoredTensor::from_f64(shape, &values))
    }
}
