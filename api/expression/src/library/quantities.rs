//! Resource quantities.

use orch_schema::quantity::{Quantity, QuantityError};

use crate::error::{fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::library::versions::number_of;
use crate::value::Val;

pub(crate) fn quantity<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    text.parse().map(Val::Quantity).map_err(|error: QuantityError| fault(error.to_string()))
}

pub(crate) fn is_quantity<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(Quantity::parse(text).is_some()))
}

pub(crate) fn sign<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Quantity(one)] = arguments else { return Err(no_overload()) };
    Ok(number_of(one.cmp(&Quantity::ZERO)))
}

pub(crate) fn is_integer<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Quantity(one)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(one.is_whole() && one.units().is_some()))
}

pub(crate) fn as_integer<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Quantity(one)] = arguments else { return Err(no_overload()) };
    let units = one.units().filter(|_| one.is_whole());
    units.map(Val::Int).ok_or_else(|| fault("cannot convert value to integer"))
}

pub(crate) fn as_float<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Quantity(one)] = arguments else { return Err(no_overload()) };
    Ok(Val::Double(one.ratio_to(Quantity::of_units(1))))
}

pub(crate) fn add<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Quantity(one), Val::Quantity(other)] => Ok(Val::Quantity(one.plus(*other))),
        [Val::Quantity(one), Val::Int(units)] => Ok(Val::Quantity(one.plus(Quantity::of_units(*units)))),
        _ => Err(no_overload()),
    }
}

pub(crate) fn sub<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Quantity(one), Val::Quantity(other)] => Ok(Val::Quantity(one.minus(*other))),
        [Val::Quantity(one), Val::Int(units)] => Ok(Val::Quantity(one.minus(Quantity::of_units(*units)))),
        _ => Err(no_overload()),
    }
}
