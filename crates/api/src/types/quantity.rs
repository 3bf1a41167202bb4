//! `Quantity`: an amount of CPU, memory or storage, held exactly.

use std::{cmp::Ordering, fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An amount such as `4`, `500m` or `16Gi`, counted in thousandths.
///
/// Amounts are equal when they are the same number, however they are written. What is smaller than a
/// thousandth is rounded away from zero, as Kubernetes does.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity {
    milli: i128,
    binary: bool,
}

/// Why text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number, or an unknown unit.
    #[error("{0:?} is not a quantity: write a number and a unit, such as 4, 500m or 16Gi")]
    Malformed(String),
    /// More than can be counted.
    #[error("{0:?} is too large to be an amount of anything")]
    TooLarge(String),
}

const BINARY_UNITS: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];
const DECIMAL_UNITS: [(&str, i32); 6] = [
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
];
const SMALL_UNITS: [(&str, i32); 3] = [("m", -3), ("u", -6), ("n", -9)];

/// What a unit multiplies with.
enum Unit {
    PowerOfTwo(u32),
    PowerOfTen(i32),
}

impl Quantity {
    /// An amount of thousandths, written with decimal units.
    pub const fn from_milli(milli: i128) -> Self {
        Self {
            milli,
            binary: false,
        }
    }

    /// An amount in bytes, written with binary units.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self {
            // u64::MAX thousand-fold is far below the largest i128; `From` is not const.
            milli: bytes as i128 * 1000,
            binary: true,
        }
    }

    /// The amount in thousandths.
    pub const fn milli(self) -> i128 {
        self.milli
    }

    /// The amount in whole units, rounded up: an amount is never promised less than it says.
    pub const fn ceil(self) -> i128 {
        let whole = self.milli.div_euclid(1000);
        if self.milli.rem_euclid(1000) == 0 {
            whole
        } else {
            whole + 1
        }
    }

    /// The sum, or nothing when it cannot be counted.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            milli: self.milli.checked_add(other.milli)?,
            binary: self.binary,
        })
    }

    /// The amount `times` over, or nothing when it cannot be counted.
    pub fn checked_mul(self, times: u32) -> Option<Self> {
        Some(Self {
            milli: self.milli.checked_mul(times.into())?,
            binary: self.binary,
        })
    }
}

/// The unit after the number.
fn unit(text: &str) -> Option<Unit> {
    if text.is_empty() {
        return Some(Unit::PowerOfTen(0));
    }
    if let Some((_, power)) = BINARY_UNITS.iter().find(|(name, _)| *name == text) {
        return Some(Unit::PowerOfTwo(*power));
    }
    let mut decimal = DECIMAL_UNITS.iter().chain(&SMALL_UNITS);
    if let Some((_, power)) = decimal.find(|(name, _)| *name == text) {
        return Some(Unit::PowerOfTen(*power));
    }
    let exponent = text.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(Unit::PowerOfTen)
}

/// `numerator / 10^power`, away from zero where it is not whole.
fn divide_up(numerator: i128, power: u32) -> i128 {
    let Some(divisor) = 10_i128.checked_pow(power) else {
        return numerator.signum();
    };
    let whole = numerator / divisor;
    if numerator % divisor == 0 {
        whole
    } else {
        whole + numerator.signum()
    }
}

/// The thousandths of `digits / 10^decimals` units.
fn thousandths(digits: i128, decimals: u32, unit: &Unit) -> Option<i128> {
    match unit {
        Unit::PowerOfTwo(power) => {
            let scaled = digits.checked_mul(1 << power)?.checked_mul(1000)?;
            Some(divide_up(scaled, decimals))
        }
        Unit::PowerOfTen(power) => {
            let shift = power
                .checked_add(3)?
                .checked_sub(decimals.try_into().ok()?)?;
            match u32::try_from(shift) {
                Ok(up) if digits != 0 => digits.checked_mul(10_i128.checked_pow(up)?),
                Ok(_) => Some(0),
                Err(_) => Some(divide_up(digits, shift.unsigned_abs())),
            }
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || QuantityError::Malformed(text.into());
        let too_large = || QuantityError::TooLarge(text.into());

        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = unsigned.find(|c| !is_number(c)).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || digits.contains('.') {
            return Err(malformed());
        }
        let unit = unit(suffix).ok_or_else(malformed)?;
        let digits: i128 = digits.parse().map_err(|_| too_large())?;
        let decimals = u32::try_from(fraction.len()).map_err(|_| too_large())?;
        let milli = thousandths(sign * digits, decimals, &unit).ok_or_else(too_large)?;
        Ok(Self {
            milli,
            binary: matches!(unit, Unit::PowerOfTwo(_)),
        })
    }
}

impl TryFrom<&IntOrString> for Quantity {
    type Error = QuantityError;

    fn try_from(raw: &IntOrString) -> Result<Self, Self::Error> {
        match raw {
            IntOrString::Int(number) => Ok(Self::from_milli(i128::from(*number) * 1000)),
            IntOrString::String(text) => text.parse(),
        }
    }
}

impl TryFrom<String> for Quantity {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.milli == other.milli
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.milli.cmp(&other.milli)
    }
}

impl fmt::Display for Quantity {
    /// The shortest whole number with a unit of the kind it was written with.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.milli % 1000 != 0 {
            return write!(formatter, "{}m", self.milli);
        }
        let whole = self.milli / 1000;
        let binary = BINARY_UNITS.map(|(name, power)| (name, 1_i128 << power));
        let decimal = DECIMAL_UNITS.map(|(name, power)| (name, 10_i128.pow(power.unsigned_abs())));
        let units = if self.binary { binary } else { decimal };
        let unit = units
            .iter()
            .find(|(_, size)| whole != 0 && whole % size == 0);
        match unit {
            Some((name, size)) => write!(formatter, "{}{name}", whole / size),
            None => write!(formatter, "{whole}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn the_spellings_of_one_amount_are_equal() {
        for (a, b) in [
            ("4", "4000m"),
            ("1.5", "1500m"),
            ("16Gi", "16384Mi"),
            ("1Ti", "1099511627776"),
            ("2k", "2e3"),
            ("2E", "2e18"),
            ("0.5Gi", "512Mi"),
            (".5", "500m"),
            ("5.", "5"),
            ("+3", "3"),
            ("1E2", "100"),
            ("1000000n", "1m"),
        ] {
            assert_eq!(quantity(a), quantity(b), "{a} and {b}");
        }
    }

    #[test]
    fn amounts_are_ordered_by_size_and_not_by_text() {
        assert!(quantity("900Mi") < quantity("1Gi"));
        assert!(quantity("1G") < quantity("1Gi"));
        assert!(quantity("-1") < quantity("0"));
    }

    #[test]
    fn an_amount_is_printed_short_with_the_kind_of_unit_it_came_with() {
        for (text, printed) in [
            ("16384Mi", "16Gi"),
            ("1536Mi", "1536Mi"),
            ("4000m", "4"),
            ("1500m", "1500m"),
            ("200", "200"),
            ("2000", "2k"),
            ("0", "0"),
            ("-2048Ki", "-2Mi"),
            ("1.5Ki", "1536"),
        ] {
            assert_eq!(quantity(text).to_string(), printed);
        }
    }

    #[test]
    fn less_than_a_thousandth_is_rounded_away_from_zero() {
        assert_eq!(quantity("1n").milli(), 1);
        assert_eq!(quantity("-1n").milli(), -1);
        assert_eq!(quantity("0.0001Ki").milli(), 103);
        assert_eq!(quantity("1e-30").milli(), 1);
        assert_eq!(quantity("1500m").ceil(), 2);
        assert_eq!(quantity("-1500m").ceil(), -1);
    }

    #[test]
    fn a_bare_number_is_a_quantity() {
        assert_eq!(Quantity::try_from(&IntOrString::Int(4)), Ok(quantity("4")));
        let text = IntOrString::String("16Gi".into());
        assert_eq!(
            Quantity::try_from(&text),
            Ok(Quantity::from_bytes(16 << 30))
        );
    }

    #[test]
    fn sums_and_multiples_are_exact() {
        let sum = quantity("1Gi").checked_add(quantity("512Mi")).unwrap();
        assert_eq!(sum.to_string(), "1536Mi");
        assert_eq!(quantity("100m").checked_mul(30), Some(quantity("3")));
        let most = Quantity::from_milli(i128::MAX);
        assert_eq!(most.checked_add(quantity("1")), None);
    }

    #[test]
    fn text_that_is_no_amount_is_refused_with_examples() {
        for text in [
            "", "4 Gi", "Gi", "4gi", "4Kb", "1.2.3", "--1", ".", "1e", "four", "0x10", "1e1e1",
        ] {
            let error = text.parse::<Quantity>().unwrap_err().to_string();
            assert!(error.contains("such as 4, 500m or 16Gi"), "{error}");
        }
        for text in ["1e99", "9999999999999999999999999999999999999999", "1e30Ei"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_reads_back_as_it_was_written(milli in -1_i128 << 90..1_i128 << 90) {
            let amount = Quantity::from_milli(milli);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }

        #[test]
        fn every_amount_of_bytes_reads_back_as_it_was_written(bytes: u64) {
            let amount = Quantity::from_bytes(bytes);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }

        #[test]
        fn no_text_makes_the_parser_fail_badly(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
