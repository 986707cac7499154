//! Quantities with a unit, in three significant digits.

use std::time::Duration;

use crate::number::significant;

/// A unit's size and its name, the largest first.
type Units = [(f64, &'static str)];

const BYTES: [(f64, &str); 5] = [
    ((1u64 << 40) as f64, "TiB"),
    ((1u64 << 30) as f64, "GiB"),
    ((1u64 << 20) as f64, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];
const BIT_RATES: [(f64, &str); 5] =
    [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
/// In microseconds.
const TIMES: [(f64, &str); 4] = [(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")];
/// In percent; a smaller share is shown as less than this.
const PERCENT_MIN: f64 = 0.001;

/// Returns a number of bytes in a binary unit, such as `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, &BYTES)
}

/// Returns bytes per second in a binary unit, such as `158 MiB/s`.
pub fn byte_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &BYTES) + "/s"
}

/// Returns bits per second in a decimal unit, such as `9.41 Gbit/s`.
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, &BIT_RATES)
}

/// Returns a time in a unit from nanoseconds to seconds, such as `50.5 ms`.
pub fn duration(time: Duration) -> String {
    micros(time.as_secs_f64() * 1e6)
}

/// Returns a number of microseconds as a time. A difference may be negative.
pub fn micros(micros: f64) -> String {
    match micros {
        0.0 => "0 s".to_owned(),
        micros => scaled(micros, &TIMES),
    }
}

/// Returns a share, where 1 is the whole, in percent: `94.7 %`. A very small share is `<0.001 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < PERCENT_MIN => format!("<{PERCENT_MIN} %"),
        percent => format!("{} %", significant(percent, 3)),
    }
}

/// Returns a value in the largest unit in which the rounded value is at least 1, or in the smallest
/// unit.
fn scaled(value: f64, units: &Units) -> String {
    let fits = |unit: &&(f64, &str)| value.abs() >= unit.0 * 0.9995;
    let (unit, name) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    format!("{} {name}", significant(value / unit, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_units() {
        let counts = [0, 999, 1000, 1023, 1536, 4 << 20, (1 << 30) - 1, 3 << 29, 1 << 50];
        let texts = [
            "0 B",
            "999 B",
            "1,000 B",
            "1,023 B",
            "1.5 KiB",
            "4 MiB",
            "1 GiB",
            "1.5 GiB",
            "1,024 TiB",
        ];
        assert_eq!(counts.map(bytes), texts);
        assert_eq!(byte_rate(166_000_000.0), "158 MiB/s");
    }

    #[test]
    fn bit_rates_have_decimal_units() {
        let rates = [12.0, 64e3, 940e6, 9.414e9, 999.7e9, 100e9];
        let texts =
            ["12 bit/s", "64 kbit/s", "940 Mbit/s", "9.41 Gbit/s", "1 Tbit/s", "100 Gbit/s"];
        assert_eq!(rates.map(bit_rate), texts);
    }

    #[test]
    fn times_have_the_unit_of_their_magnitude() {
        let times = [0, 80, 8_260, 82_600, 999_700, 8_260_000, 50_500_000, 8_260_000_000];
        let texts = ["0 s", "80 ns", "8.26 µs", "82.6 µs", "1 ms", "8.26 ms", "50.5 ms", "8.26 s"];
        assert_eq!(times.map(|ns| duration(Duration::from_nanos(ns))), texts);
        assert_eq!([-1200.0, 0.25, 3.6e9].map(micros), ["-1.2 ms", "250 ns", "3,600 s"]);
    }

    #[test]
    fn shares_are_percentages() {
        let shares = [0.0, 1e-7, 0.0004, 0.012, 0.5, 0.9468, 1.0];
        let texts = ["0 %", "<0.001 %", "0.04 %", "1.2 %", "50 %", "94.7 %", "100 %"];
        assert_eq!(shares.map(percent), texts);
    }
}
