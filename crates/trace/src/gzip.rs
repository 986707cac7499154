//! Compressed captures.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::CaptureError;

/// The maximum length of a decompressed capture in bytes, so that a small file cannot fill memory.
pub const FILE_MAX: u64 = 4 << 30;

/// Returns the bytes of a file, decompressed if `gzip` wrote it.
pub fn decompress(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CaptureError> {
    decompress_up_to(bytes, FILE_MAX)
}

fn decompress_up_to(bytes: &[u8], max: u64) -> Result<Cow<'_, [u8]>, CaptureError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut whole = Vec::new();
    // One byte more than allowed distinguishes a file that is too long from the longest allowed
    // one.
    let mut decoder = MultiGzDecoder::new(bytes).take(max + 1);
    match decoder.read_to_end(&mut whole) {
        Ok(len) if len as u64 > max => Err(CaptureError::TooLarge { max }),
        Ok(_) => Ok(Cow::Owned(whole)),
        Err(error) => Err(CaptureError::Gzip { why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn uncompressed_files_are_not_changed() {
        assert_eq!(decompress(b"plain").unwrap(), b"plain".as_slice());
        assert_eq!(decompress(&compressed(b"plain")).unwrap(), b"plain".as_slice());
    }

    #[test]
    fn a_bomb_and_a_broken_file_are_refused() {
        let bomb = compressed(&[0; 1000]);
        assert!(decompress_up_to(&bomb, 1000).is_ok());
        assert_eq!(decompress_up_to(&bomb, 999), Err(CaptureError::TooLarge { max: 999 }));
        let cut = decompress(&bomb[..bomb.len() - 1]);
        assert!(matches!(cut, Err(CaptureError::Gzip { .. })), "{cut:?}");
    }
}
