//! Sums of quantities in the form in which they were written: `100Mi` and `28Mi` are `128Mi`.
//!
//! Owns arithmetic that keeps the form. As in the reference a sum has the form of its first part, and zero has none.

use std::fmt;

use super::{NANO, Quantity, Scale, nano_units, scale_of, write};

/// A quantity, and the form in which it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    quantity: Quantity,
    scale: Scale,
}

impl Amount {
    /// Zero.
    pub const ZERO: Amount = Amount { quantity: Quantity::ZERO, scale: Scale::Decimal(0) };

    /// Parses `text`; `None` when it is no quantity.
    pub fn parse(text: &str) -> Option<Amount> {
        let quantity = nano_units(text).ok().map(Quantity)?;
        Some(Amount { quantity, scale: scale_of(text).ok()? })
    }

    /// A number of things.
    pub fn count(number: usize) -> Amount {
        let number = i128::try_from(number).unwrap_or(i128::MAX / NANO);
        Amount { quantity: Quantity(number * NANO), scale: Scale::Decimal(0) }
    }

    /// The quantity.
    pub fn quantity(self) -> Quantity {
        self.quantity
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount { quantity: self.quantity.plus(other.quantity), scale: self.scale_with(other) }
    }

    /// The difference, saturating.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        let quantity = Quantity(self.quantity.0.saturating_sub(other.quantity.0));
        Amount { quantity, scale: self.scale_with(other) }
    }

    /// The larger one; this one where both are equal.
    #[must_use]
    pub fn max(self, other: Amount) -> Amount {
        if other.quantity > self.quantity { other } else { self }
    }

    /// The amount with a part of a unit rounded up to a whole one.
    #[must_use]
    pub fn rounded_up(self) -> Amount {
        let whole = self.quantity.0.div_euclid(NANO) + i128::from(!self.quantity.is_whole());
        Amount { quantity: Quantity(whole * NANO), ..self }
    }

    fn scale_with(self, other: Amount) -> Scale {
        if self.quantity.is_zero() { other.scale } else { self.scale }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if self.quantity.is_negative() {
            text.push('-');
        }
        write(self.quantity.0.saturating_abs(), self.scale, &mut text);
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).unwrap()
    }

    #[test]
    fn sums_keep_the_form_of_their_first_part() {
        for (a, b, sum, difference) in [
            ("0", "200Mi", "200Mi", "-200Mi"),
            ("100Mi", "924Mi", "1Gi", "-824Mi"),
            ("600m", "400m", "1", "200m"),
            ("1", "500m", "1500m", "500m"),
            ("1Gi", "1", "1073741825", "1073741823"),
            ("1500m", "1500m", "3", "0"),
            ("1e3", "1", "1001", "999"),
        ] {
            assert_eq!(amount(a).plus(amount(b)).to_string(), sum, "{a} + {b}");
            assert_eq!(amount(a).minus(amount(b)).to_string(), difference, "{a} - {b}");
        }
        assert_eq!(Amount::parse("x"), None);
        assert_eq!(Amount::count(3).to_string(), "3");
        assert_eq!(amount("1Gi").max(amount("1G")).to_string(), "1Gi");
        assert_eq!(amount("1500m").rounded_up().to_string(), "2");
        assert_eq!(amount("0.1Ki").rounded_up().to_string(), "103");
        assert_eq!(amount("2Gi").rounded_up().to_string(), "2Gi");
    }
}
