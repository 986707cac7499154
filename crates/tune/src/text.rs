//! Sizes, rates and times as people write them.

use std::time::Duration;

const BYTE_UNITS: [(f64, &str); 4] = [
    ((1u64 << 40) as f64, "TiB"),
    ((1 << 30) as f64, "GiB"),
    ((1 << 20) as f64, "MiB"),
    (1024., "KiB"),
];
const BIT_UNITS: [(f64, &str); 4] = [(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")];

/// Returns a number of bytes in the largest unit that fits, such as `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, &BYTE_UNITS, "bytes")
}

/// Returns bytes per second as bits per second, such as `99.0 Gb/s`.
pub fn bits_per_second(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8., &BIT_UNITS, "b/s")
}

/// Returns bytes per second in binary units, such as `158 MiB/s`.
pub fn bytes_per_second(rate: f64) -> String {
    format!("{}/s", scaled(rate, &BYTE_UNITS, "bytes"))
}

/// Returns a time in the unit that suits it, such as `50.5 ms`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1. => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "us"),
        s => (s * 1e9, "ns"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Returns a number of things, such as `1 pair` or `2 pairs`.
pub fn count(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// Returns a part of one as per cent, such as `94.7 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", three_digits(part * 100.))
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{} {name}", three_digits(value / unit)),
        None => format!("{} {smallest}", value.round()),
    }
}

/// Three significant digits before a unit, without zeros that say nothing.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(bytes(167 << 20), "167 MiB");
        assert_eq!(bytes(1000), "1000 bytes");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bits_per_second(12.5e9), "100 Gb/s");
        assert_eq!((count(1u32, "pair"), count(2u32, "pair")), ("1 pair".into(), "2 pairs".into()));
        assert_eq!(bytes_per_second(166_000_000.), "158 MiB/s");
        assert_eq!(duration(Duration::from_micros(50_500)), "50.5 ms");
        assert_eq!(duration(Duration::from_nanos(84_500)), "84.5 us");
        assert_eq!(duration(Duration::ZERO), "0 ns");
    }
}
