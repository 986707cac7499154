//! Colours that people with colour blindness can distinguish.

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const WHITE: Colour = Colour(255, 255, 255);
/// Titles and axes.
pub(crate) const INK: Colour = Colour(32, 36, 40);
/// Explanatory text.
pub(crate) const GREY: Colour = Colour(95, 102, 110);
/// Lines behind the values.
pub(crate) const GRID: Colour = Colour(226, 229, 232);

/// Okabe and Ito, "Color universal design" (2008), without yellow, which is invisible on white.
const PALETTE: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(60, 60, 60),
];

/// Colours from dark to light with evenly growing brightness.
const HEAT: [Colour; 6] = [
    Colour(45, 30, 90),
    Colour(58, 82, 139),
    Colour(33, 130, 142),
    Colour(62, 178, 118),
    Colour(160, 210, 64),
    Colour(250, 231, 80),
];

/// Returns a colour of the palette; higher numbers repeat it.
pub(crate) fn of_series(number: usize) -> Colour {
    PALETTE[number % PALETTE.len()]
}

/// Returns the colour of a value, as a fraction between the least and the greatest.
pub(crate) fn of_heat(part: f64) -> Colour {
    let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
    let at = part * (HEAT.len() - 1) as f64;
    let first = (at.floor() as usize).min(HEAT.len() - 2);
    HEAT[first].toward(HEAT[first + 1], at - first as f64)
}

impl Colour {
    /// Returns the mixture with a share `part` of the other colour.
    pub(crate) fn toward(self, other: Self, part: f64) -> Self {
        let mix =
            |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Returns the text colour that is readable on this background.
    pub(crate) fn readable(self) -> Self {
        let light = 0.299 * f64::from(self.0) + 0.587 * f64::from(self.1);
        if light + 0.114 * f64::from(self.2) > 140.0 { INK } else { WHITE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_colours_grow_lighter() {
        let light = |part: f64| {
            let Colour(r, g, b) = of_heat(part);
            299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b)
        };
        assert!((0..20).all(|n| light(f64::from(n) / 20.0) < light(f64::from(n + 1) / 20.0)));
        assert_eq!(of_heat(f64::NAN), of_heat(-1.0));
        assert_eq!((of_heat(0.0).readable(), of_heat(1.0).readable()), (WHITE, INK));
    }
}
