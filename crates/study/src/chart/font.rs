//! The font of all pictures.

use std::sync::OnceLock;

use ab_glyph::{Font, FontRef};

/// The font family in an SVG. The alternatives are narrower, so that texts do not overlap.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

const REGULAR: &[u8] = include_bytes!("../../font/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../../font/DejaVuSans-Bold.ttf");

/// Returns the font.
pub(crate) fn face(bold: bool) -> &'static FontRef<'static> {
    static FACES: OnceLock<[FontRef<'static>; 2]> = OnceLock::new();
    let faces = FACES.get_or_init(|| {
        [REGULAR, BOLD].map(|bytes| FontRef::try_from_slice(bytes).expect("the crate's own font"))
    });
    &faces[usize::from(bold)]
}

/// Returns the width of a text, in the unit of `size`, the height of an em.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let face = face(bold);
    let advance = |c| f64::from(face.h_advance_unscaled(face.glyph_id(c)));
    text.chars().map(advance).sum::<f64>() * size / units(face)
}

/// Returns the font units per em.
pub(crate) fn units(face: &FontRef<'_>) -> f64 {
    f64::from(face.units_per_em().unwrap_or(2048.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_all_characters_of_labels() {
        let signs = "abcxyzABCXYZ0123456789 .,:;%/()[]+-=<>_µ·×–—±²³≤≥≈→…°";
        for bold in [false, true] {
            let missing: Vec<char> =
                signs.chars().filter(|c| face(bold).glyph_id(*c).0 == 0).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }

    #[test]
    fn a_longer_text_is_wider_and_a_bold_one_too() {
        assert!(width("ab", 10.0, false) > width("a", 10.0, false));
        assert!(width("ab", 10.0, true) > width("ab", 10.0, false));
        assert!((width("ab", 20.0, false) - 2.0 * width("ab", 10.0, false)).abs() < 1e-9);
    }
}
