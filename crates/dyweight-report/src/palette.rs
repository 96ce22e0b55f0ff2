//! Colours: a restrained set that colour-blind readers can tell apart, and maps from numbers to colours.
//!
//! Categories follow Okabe and Ito (2008), in an order in which neighbours differ in lightness too; the diverging
//! map is ColorBrewer's RdBu with blue for positive numbers.

/// Red, green, blue, opacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Red.
    pub r: u8,
    /// Green.
    pub g: u8,
    /// Blue.
    pub b: u8,
    /// Opacity, 255 = opaque.
    pub a: u8,
}

impl Colour {
    /// Opaque.
    pub const fn rgb(r: u8, g: u8, b: u8) -> Self {
        Self { r, g, b, a: 255 }
    }

    /// The same colour, let through: 0 = invisible, 1 = opaque.
    pub fn fade(self, opacity: f64) -> Self {
        Self { a: (255.0 * opacity.clamp(0.0, 1.0)).round() as u8, ..self }
    }

    /// Black or white, whichever is read more easily on top of this colour. It is not [`INK`], which pages turn light
    /// on a dark sheet: the colour below does not turn.
    pub fn ink(self) -> Self {
        // At this lightness both have a contrast of about 4.4.
        let light = 0.299 * f64::from(self.r) + 0.587 * f64::from(self.g) + 0.114 * f64::from(self.b);
        if light > 118.0 { Self::rgb(0x1c, 0x1c, 0x1c) } else { Self::rgb(255, 255, 255) }
    }
}

/// Text and frames.
pub const INK: Colour = Colour::rgb(0x22, 0x22, 0x22);
/// Ticks and secondary text.
pub const GREY: Colour = Colour::rgb(0x66, 0x66, 0x66);
/// Grid lines and blank cells.
pub const FAINT: Colour = Colour::rgb(0xe4, 0xe4, 0xe4);

const CATEGORIES: [Colour; 8] = [
    Colour::rgb(0x00, 0x72, 0xb2), // blue
    Colour::rgb(0xe6, 0x9f, 0x00), // orange
    Colour::rgb(0x00, 0x9e, 0x73), // green
    Colour::rgb(0xd5, 0x5e, 0x00), // vermilion
    Colour::rgb(0xcc, 0x79, 0xa7), // rose
    Colour::rgb(0x56, 0xb4, 0xe9), // sky
    Colour::rgb(0x8a, 0x7a, 0x00), // olive, in place of the yellow that vanishes on white
    Colour::rgb(0x44, 0x44, 0x44), // charcoal
];

/// The colour of the category with this number; they repeat after eight.
pub fn category(index: usize) -> Colour {
    CATEGORIES[index % CATEGORIES.len()]
}

const NEGATIVE: [Colour; 4] = [
    Colour::rgb(0xf7, 0xf7, 0xf7),
    Colour::rgb(0xf4, 0xa5, 0x82),
    Colour::rgb(0xd6, 0x60, 0x4d),
    Colour::rgb(0xb2, 0x18, 0x2b),
];
const POSITIVE: [Colour; 4] = [
    Colour::rgb(0xf7, 0xf7, 0xf7),
    Colour::rgb(0x92, 0xc5, 0xde),
    Colour::rgb(0x43, 0x93, 0xc3),
    Colour::rgb(0x21, 0x66, 0xac),
];

/// Red for −1, white for 0, blue for 1; numbers beyond take the end's colour.
pub fn diverging(value: f64) -> Colour {
    if value < 0.0 { ramp(&NEGATIVE, -value) } else { ramp(&POSITIVE, value) }
}

fn ramp(stops: &[Colour; 4], value: f64) -> Colour {
    let place = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) * 3.0 };
    let left = (place.floor() as usize).min(2);
    let mix = |a: u8, b: u8| (f64::from(a) + (place - left as f64) * (f64::from(b) - f64::from(a))).round() as u8;
    let (a, b) = (stops[left], stops[left + 1]);
    Colour::rgb(mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_meet_their_ends() {
        assert_eq!(diverging(0.0), NEGATIVE[0]);
        assert_eq!([diverging(-9.0), diverging(9.0)], [NEGATIVE[3], POSITIVE[3]]);
        assert_eq!(diverging(f64::NAN), NEGATIVE[0], "a missing number is not coloured");
    }

    #[test]
    fn ink_contrasts() {
        assert_eq!(diverging(0.0).ink(), Colour::rgb(0x1c, 0x1c, 0x1c));
        assert_eq!(diverging(1.0).ink(), Colour::rgb(255, 255, 255));
    }
}
