//! The time of a capture as a date.

use fulmar_base::Time;

/// Returns the time in UTC: `2026-11-23 02:01:51.123456`.
pub(super) fn date(time: Time) -> String {
    let (days, seconds) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let micros = time.0 % 1_000_000_000 / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Returns the date of a day, counted from 1970-01-01. A year starts in March here, so that the day
/// of a leap year is its last one.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date() {
        let dates =
            [0, 951_782_400, 1_709_164_800, 1_795_392_111].map(|s| date(Time::from_secs(s)));
        assert_eq!(dates[0], "1970-01-01 00:00:00.000000");
        assert_eq!(dates[1], "2000-02-29 00:00:00.000000");
        assert_eq!(dates[2], "2024-02-29 00:00:00.000000");
        assert_eq!(dates[3], "2026-11-23 00:01:51.000000");
    }
}
