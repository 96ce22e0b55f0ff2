//! Eight-bit images: samples to pixels, PNG files, contact sheets.
//!
//! ```text
//! pixel = clip(127.5·x + 128, 0, 255), truncated
//! ```
//!
//! is the rule of the EDM family, so that the metric scripts of the field read our folders as their own. Reading
//! is bounded: a header that promises more than `MAX_BYTES` of pixels is refused before anything is allocated.

use crate::{SharedBytes, atomic};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;

/// The most pixel bytes [`Image::from_png`] will decode.
pub(crate) const MAX_BYTES: usize = 1 << 28;

/// Deflate packs at most 258 bytes into two bits.
const MOST_PACKED: usize = 1032;

/// Rows of interleaved bytes, one (grey) or three (RGB) to a pixel; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    channels: usize,
    data: Vec<u8>,
}

/// Why bytes are not a PNG we can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPng {
    /// The header promises more than we are willing to hold.
    #[error("{width} x {height} pixels are more than the {MAX_BYTES} bytes an image may have")]
    TooLarge {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The bytes end before the image does.
    #[error("truncated: the file ends before the image does")]
    Truncated,
    /// One channel of 16 bits, which published tools show as white.
    #[error("16-bit grey, which the published tools turn white: save it with 8 bits")]
    DeepGrey,
    /// The bytes break a rule of the format.
    #[error("not a sound PNG: {reason}")]
    Broken {
        /// What the decoder said.
        reason: String,
    },
}

impl Image {
    /// Takes `data` as rows of pixels of one or three channels.
    pub fn new(width: usize, height: usize, channels: usize, data: Vec<u8>) -> Result<Self> {
        let fits = width.checked_mul(height).and_then(|p| p.checked_mul(channels)) == Some(data.len());
        let countable = u32::try_from(width).is_ok() && u32::try_from(height).is_ok();
        if !fits || !countable || data.is_empty() || !matches!(channels, 1 | 3) {
            let expected = vec![height, width, channels];
            return Err(Error::Shape { what: "image (1 or 3 channels)".into(), expected, found: vec![data.len()] });
        }
        Ok(Self { width, height, channels, data })
    }

    /// One sample `[c, h, w]` with values in about [−1, 1]. What is not a number becomes black.
    pub fn from_sample(sample: &[f64], [c, h, w]: [usize; 3]) -> Result<Self> {
        let plane = h.saturating_mul(w);
        if !matches!(c, 1 | 3) || plane.checked_mul(c) != Some(sample.len()) {
            let (expected, found) = (vec![c, h, w], vec![sample.len()]);
            return Err(Error::Shape { what: "sample of 1 or 3 channels".into(), expected, found });
        }
        // `as u8` truncates, saturates at both ends and sends NaN to 0.
        let data = (0..plane).flat_map(|p| (0..c).map(move |k| (sample[k * plane + p] * 127.5 + 128.0) as u8));
        Self::new(w, h, c, data.collect())
    }

    /// A batch of one sample `[1, c, h, w]` with values (p − 128)/127.5: what metrics make of an image.
    pub fn to_sample(&self) -> Tensor {
        let (c, plane) = (self.channels, self.width * self.height);
        let mut sample = Tensor::zeros([1, c, self.height, self.width]);
        let entries = sample.data_mut().iter_mut().enumerate();
        entries.for_each(|(i, x)| *x = (f64::from(self.data[i % plane * c + i / plane]) - 128.0) / 127.5);
        sample
    }

    /// Every sample of a batch.
    pub fn from_batch(batch: &Tensor) -> Result<Vec<Self>> {
        let [n, c, h, w] = batch.shape();
        (0..n).map(|i| Self::from_sample(batch.sample(i), [c, h, w])).collect()
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// 1 (grey) or 3 (RGB).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The bytes, row by row, channels of a pixel together.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The same picture in three channels.
    pub fn to_rgb(&self) -> Self {
        match self.channels {
            1 => Self { channels: 3, data: self.data.iter().flat_map(|v| [*v; 3]).collect(), ..*self },
            _ => self.clone(),
        }
    }

    /// The bytes of a PNG file; the same for the same picture.
    pub fn to_png(&self) -> Vec<u8> {
        let colour = if self.channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb };
        encode_png(self.width, self.height, colour, &self.data)
    }

    /// The same with texts by keyword, each of 1 to 79 letters.
    pub fn to_png_with_texts(&self, texts: &[(&str, String)]) -> Vec<u8> {
        let colour = if self.channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb };
        encode_png_with_texts(self.width, self.height, colour, &self.data, texts)
    }

    /// Decodes a PNG. Palettes and 16-bit values become 8-bit ones; transparency is dropped, as the metric scripts
    /// of the field do.
    pub fn from_png(bytes: &[u8]) -> Result<Self, BadPng> {
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_BYTES });
        decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        // Left to itself the decoder does not look at the checksum of the compressed stream.
        decoder.ignore_checksums(false);
        let header = decoder.read_header_info().map_err(broken)?;
        let (width, height) = (header.width, header.height);
        let pixels = (width as usize).checked_mul(height as usize).and_then(|p| p.checked_mul(4));
        if pixels.is_none_or(|bytes| bytes > MAX_BYTES) {
            return Err(BadPng::TooLarge { width, height });
        }
        // Memory follows the file, not what its header claims.
        if header.raw_bytes() > bytes.len().saturating_mul(MOST_PACKED) {
            return Err(BadPng::Truncated);
        }
        let mut reader = decoder.read_info().map_err(broken)?;
        check_palette(reader.info())?;
        let size = reader.output_buffer_size().ok_or(BadPng::TooLarge { width, height })?;
        let mut data = vec![0; size];
        reader.next_frame(&mut data).map_err(broken)?;
        let samples = reader.output_color_type().0.samples();
        let channels = if samples < 3 { 1 } else { 3 };
        if samples != channels {
            data = data.chunks_exact(samples).flat_map(|pixel| &pixel[..channels]).copied().collect();
        }
        Ok(Self { width: width as usize, height: height as usize, channels, data })
    }

    /// Reads a PNG file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_png(&bytes_of(path)?).map_err(|bad| undecodable(path, bad))
    }

    /// Reads a PNG file as PIL would turn it into RGB: 16-bit colours lose their lower bits, an animation is its first
    /// picture. 16-bit grey, which comes out white there, is refused.
    pub fn read_rgb(path: &Path) -> Result<Self> {
        let bytes = bytes_of(path)?;
        // Depth and kind of colour in the header.
        if bytes.get(24..26) == Some(&[16, 0]) {
            return Err(undecodable(path, BadPng::DeepGrey));
        }
        Ok(Self::from_png(&bytes).map_err(|bad| undecodable(path, bad))?.to_rgb())
    }

    /// Writes a PNG file.
    pub fn write(&self, path: &Path) -> Result<()> {
        write(path, &self.to_png())
    }
}

fn bytes_of(path: &Path) -> Result<SharedBytes> {
    // Packed pixels are no longer than plain ones by more than a little.
    crate::read_file(path, 2 * MAX_BYTES as u64)
}

fn undecodable(path: &Path, bad: BadPng) -> Error {
    Error::io("decode", path, std::io::Error::new(std::io::ErrorKind::InvalidData, bad))
}

/// True if samples of this shape are pictures: one or three channels and more than a few pixels. Anything else is a
/// list of numbers.
pub fn is_image([c, h, w]: [usize; 3]) -> bool {
    (c == 1 || c == 3) && h >= 8 && w >= 8
}

/// Images of one size in rows of `columns`, `padding` white pixels between and around them. Grey ones become RGB
/// if others are.
pub fn contact_sheet(images: &[Image], columns: usize, padding: u8) -> Result<Image> {
    let padding = usize::from(padding);
    let Some(first) = images.first().filter(|_| columns > 0) else {
        let value = format!("{} images in {columns} columns", images.len());
        return Err(Error::bad_value("columns", value, "at least one image and one column"));
    };
    if let Some(odd) = images.iter().find(|i| (i.width, i.height) != (first.width, first.height)) {
        let (expected, found) = (vec![first.height, first.width], vec![odd.height, odd.width]);
        return Err(Error::Shape { what: "image of a contact sheet".into(), expected, found });
    }
    let channels = images.iter().map(|i| i.channels).max().unwrap_or(1);
    let columns = columns.min(images.len());
    let rows = images.len().div_ceil(columns);
    let width = columns * (first.width + padding) + padding;
    let height = rows * (first.height + padding) + padding;
    let mut data = vec![255; width * height * channels];
    for (index, image) in images.iter().enumerate() {
        let image = if channels == 3 { image.to_rgb() } else { image.clone() };
        let left = padding + index % columns * (first.width + padding);
        let top = padding + index / columns * (first.height + padding);
        for (row, pixels) in image.data.chunks_exact(first.width * channels).enumerate() {
            let start = ((top + row) * width + left) * channels;
            data[start..start + pixels.len()].copy_from_slice(pixels);
        }
    }
    Image::new(width, height, channels, data)
}

/// Puts bytes into a file, making its directory.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    }
    atomic::write(path, bytes)
}

/// A PNG of 8-bit pixels that fill `width` x `height`, both at least 1.
pub fn encode_png(width: usize, height: usize, colour: png::ColorType, data: &[u8]) -> Vec<u8> {
    encode_png_with_texts(width, height, colour, data, &[])
}

fn encode_png_with_texts(
    width: usize,
    height: usize,
    colour: png::ColorType,
    data: &[u8],
    texts: &[(&str, String)],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, text) in texts {
        encoder.add_itxt_chunk((*keyword).into(), text.clone()).expect("written to memory");
    }
    let mut writer = encoder.write_header().expect("a size of at least one pixel, written to memory");
    writer.write_image_data(data).expect("as many bytes as the size says, written to memory");
    writer.finish().expect("written to memory");
    bytes
}

/// An error for a palette that is no list of colours, or has fewer of them than of transparencies: the decoder takes
/// both for granted.
fn check_palette(info: &png::Info<'_>) -> Result<(), BadPng> {
    let length = |list: &Option<Cow<'_, [u8]>>| list.as_ref().map_or(0, |list| list.len());
    let (palette, transparent) = (length(&info.palette), length(&info.trns));
    let sound = palette.is_multiple_of(3) && palette <= 3 * 256 && transparent <= palette / 3;
    if info.color_type != png::ColorType::Indexed || sound {
        return Ok(());
    }
    Err(BadPng::Broken { reason: format!("a palette of {palette} bytes with {transparent} transparencies") })
}

fn broken(error: png::DecodingError) -> BadPng {
    match error {
        png::DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => BadPng::Truncated,
        other => BadPng::Broken { reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(width: usize, height: usize, channels: usize) -> Image {
        let data = (0..width * height * channels).map(|i| (i * 37 % 256) as u8).collect();
        Image::new(width, height, channels, data).unwrap()
    }

    #[test]
    fn pixels_follow_the_rule_of_the_field() {
        let values = [-2.0, -1.0, -1.0 / 255.0, 0.0, 0.5, 0.999, 1.0, 3.0, f64::NAN];
        let image = Image::from_sample(&values, [1, 3, 3]).unwrap();
        assert_eq!(image.data(), [0, 0, 127, 128, 191, 255, 255, 255, 0]);
        let colour = Image::from_sample(&[-1.0, 0.0, 1.0], [3, 1, 1]).unwrap();
        assert_eq!(colour.data(), [0, 128, 255]);
        assert!(Image::from_sample(&[0.0; 2], [2, 1, 1]).is_err());
        assert!(Image::from_sample(&[], [1, 0, 0]).is_err());
    }

    #[test]
    fn png_round_trip_is_identity() {
        for image in [gradient(7, 5, 1), gradient(5, 7, 3), gradient(1, 1, 3)] {
            assert_eq!(Image::from_png(&image.to_png()).unwrap(), image);
        }
    }

    #[test]
    fn texts_are_kept_and_change_no_pixel() {
        let image = gradient(5, 7, 3);
        let bytes = image.to_png_with_texts(&[("prompt", "a café at night".into()), ("seed", "7".into())]);
        assert_eq!(Image::from_png(&bytes).unwrap(), image);
        let reader = png::Decoder::new(Cursor::new(&bytes)).read_info().unwrap();
        let found: Vec<(String, String)> =
            reader.info().utf8_text.iter().map(|chunk| (chunk.keyword.clone(), chunk.get_text().unwrap())).collect();
        assert_eq!(found, [("prompt".into(), "a café at night".into()), ("seed".into(), "7".into())]);
    }

    #[test]
    fn the_checksum_under_the_chunks_is_looked_at() {
        let mut bytes = gradient(6, 6, 3).to_png();
        let chunk = bytes.windows(4).position(|name| name == b"IDAT").unwrap();
        let len = u32::from_be_bytes(bytes[chunk - 4..chunk].try_into().unwrap()) as usize;
        let end = chunk + 4 + len;
        bytes[end - 1] ^= 1;
        let sum = crc32fast::hash(&bytes[chunk..end]).to_be_bytes();
        bytes[end..end + 4].copy_from_slice(&sum);
        assert!(Image::from_png(&bytes).is_err());
    }

    #[test]
    fn every_truncation_is_an_error_not_a_panic() {
        let bytes = gradient(6, 6, 3).to_png();
        let end = bytes.len() - 12; // Without IEND the pixels are all there.
        for len in 0..end {
            assert!(Image::from_png(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
        }
    }

    #[test]
    fn flipped_bits_do_not_panic() {
        let bytes = gradient(6, 6, 3).to_png();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = Image::from_png(&bad);
        }
    }

    #[test]
    fn a_huge_promise_is_refused_by_name() {
        let mut bytes = gradient(1, 1, 1).to_png();
        bytes[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        let crc = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(Image::from_png(&bytes), Err(BadPng::TooLarge { width: 65535, height: 65535 }));
    }

    #[test]
    fn other_kinds_are_converted() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
        encoder.set_color(png::ColorType::Rgba);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[1, 2, 3, 0, 4, 5, 6, 255]).unwrap();
        writer.finish().unwrap();
        assert_eq!(Image::from_png(&bytes).unwrap().data(), [1, 2, 3, 4, 5, 6]);

        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(vec![9, 8, 7, 6, 5, 4]);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[1, 0]).unwrap();
        writer.finish().unwrap();
        assert_eq!(Image::from_png(&bytes).unwrap().data(), [6, 5, 4, 9, 8, 7]);

        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 1, 1);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Sixteen);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[0xab, 0xcd]).unwrap();
        writer.finish().unwrap();
        assert_eq!(Image::from_png(&bytes).unwrap().data(), [0xab]);
    }

    #[test]
    fn sheets_place_images_in_reading_order() {
        let grey = |v| Image::new(1, 1, 1, vec![v]).unwrap();
        let sheet = contact_sheet(&[grey(1), grey(2), grey(3)], 2, 1).unwrap();
        assert_eq!((sheet.width(), sheet.height(), sheet.channels()), (5, 5, 1));
        let at = |x: usize, y: usize| sheet.data()[y * 5 + x];
        assert_eq!([at(1, 1), at(3, 1), at(1, 3), at(3, 3), at(0, 0)], [1, 2, 3, 255, 255]);
        let mixed = contact_sheet(&[grey(1), gradient(1, 1, 3)], 9, 0).unwrap();
        assert_eq!((mixed.width(), mixed.data()), (2, &[1, 1, 1, 0, 37, 74][..]));
        assert!(contact_sheet(&[], 2, 1).is_err());
        assert!(contact_sheet(&[grey(1), gradient(2, 1, 1)], 2, 1).is_err());
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, b| {
            (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xedb8_8320 } else { c >> 1 })
        })
    }
}
