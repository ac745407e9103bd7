//! Sizes of files for people to read.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// The unit of that power of 1024; panics where there is none.
pub fn unit(power: usize) -> &'static str {
    UNITS[power]
}

/// A number of bytes with one decimal, rounded, in the largest unit of which there is at least one.
/// Whole bytes have no decimal.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut power = 0;
    while value >= 1024.0 && power + 1 < UNITS.len() {
        value /= 1024.0;
        power += 1;
    }
    if power == 0 {
        return format!("{} {}", bytes, unit(0));
    }
    format!("{:.1} {}", value, unit(power))
}
