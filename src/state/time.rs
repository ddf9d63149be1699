//! Times: epoch milliseconds in the file, `Date.prototype.toISOString` text outside.
//!
//! Only this file reads the clock. Everything else takes `now`.

use std::fmt::{self, Display};
use std::time::{SystemTime, UNIX_EPOCH};

const MS_PER_DAY: i64 = 86_400_000;

/// The largest distance from the epoch that a JavaScript `Date` holds (ECMA-262, "Time Values and Time Range").
pub const MAX_DATE_MS: i64 = 8_640_000_000_000_000;

/// The wall clock, in epoch milliseconds. For the state layer's own bookkeeping; methods get the caller's clock.
#[must_use]
pub fn wall_clock_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Epoch milliseconds that print as `Date.prototype.toISOString` prints them.
///
/// A value that no `Date` holds, which only a damaged file can contain, prints as the nearest one that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iso(pub i64);

impl Display for Iso {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.clamp(-MAX_DATE_MS, MAX_DATE_MS);
        let (year, month, day) = civil_from_days(ms.div_euclid(MS_PER_DAY));
        let of_day = ms.rem_euclid(MS_PER_DAY);
        // ECMA-262, "Date Time String Format": years outside 0000 to 9999 have a sign and six digits
        match year {
            0..=9999 => write!(out, "{year:04}")?,
            _ => write!(out, "{year:+07}")?,
        }
        write!(
            out,
            "-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            of_day / 3_600_000,
            of_day / 60_000 % 60,
            of_day / 1_000 % 60,
            of_day % 1_000
        )
    }
}

/// Days since 1970-01-01 as year, month and day of the proleptic Gregorian calendar.
///
/// Howard Hinnant's `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>): years begin in
/// March, so that the leap day is the last one, and repeat every 400 years (146,097 days).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prints_as_javascript_does() {
        // each expected text is what Node prints for new Date(ms).toISOString()
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_785_801_600_123, "2026-08-04T00:00:00.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
            (MAX_DATE_MS, "+275760-09-13T00:00:00.000Z"),
            (-MAX_DATE_MS, "-271821-04-20T00:00:00.000Z"),
        ] {
            assert_eq!(Iso(ms).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn days_follow_one_another(day in -100_000_000_i64..100_000_000) {
            let (year, month, date) = civil_from_days(day);
            let next = civil_from_days(day + 1);
            let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            let length = match month { 2 => 28 + i64::from(leap), 4 | 6 | 9 | 11 => 30, _ => 31 };
            let expected = if date < length { (year, month, date + 1) }
                else if month < 12 { (year, month + 1, 1) }
                else { (year + 1, 1, 1) };
            prop_assert_eq!(next, expected);
        }
    }
}
