//! Quantities as values of expressions.

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, Kind, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use orch_schema::quantity::Quantity;

static QUANTITY: Type = Type::simple_type(Kind::Opaque, "Quantity");

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub(super) struct CelQuantity(pub(super) Quantity);

impl Val for CelQuantity {
    fn get_type(&self) -> &Type {
        &QUANTITY
    }

    fn cel_type() -> &'static Type {
        &QUANTITY
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<CelQuantity>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelQuantity {}

/// Adds `quantity()`, `isQuantity()` and the methods of quantities.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn quantity: (CelString) -> Result<CelQuantity>)?;
    cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (CelQuantity, CelQuantity) -> CelInt)?;
    cel::add_member_overload!(env, fn is_greater_than: (CelQuantity, CelQuantity) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (CelQuantity, CelQuantity) -> CelBool)?;
    cel::add_member_overload!(env, fn add: (CelQuantity, CelQuantity) -> CelQuantity)?;
    cel::add_member_overload!(env, fn add_units: (CelQuantity, CelInt) -> CelQuantity, name = "add")?;
    cel::add_member_overload!(env, fn sub: (CelQuantity, CelQuantity) -> CelQuantity)?;
    cel::add_member_overload!(env, fn sub_units: (CelQuantity, CelInt) -> CelQuantity, name = "sub")?;
    cel::add_member_overload!(env, fn is_integer: (CelQuantity) -> CelBool)?;
    cel::add_member_overload!(env, fn as_integer: (CelQuantity) -> Result<CelInt>)?;
    cel::add_member_overload!(env, fn as_approximate_float: (CelQuantity) -> CelDouble)?;
    cel::add_member_overload!(env, fn sign: (CelQuantity) -> CelInt)?;
    env.add_type(Type::simple_type(Kind::Opaque, "Quantity"))
}

/// A number that stands for an order.
pub(super) fn number(order: Ordering) -> CelInt {
    CelInt::from(match order {
        Ordering::Less => -1_i64,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn quantity(text: &CelString<'_>) -> Result<CelQuantity, ExecutionError> {
    let parsed = Quantity::parse(text.inner());
    parsed.map(CelQuantity).ok_or_else(|| ExecutionError::function_error("quantity", "no quantity"))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    CelBool::from(Quantity::parse(text.inner()).is_some())
}

fn compare_to(one: &CelQuantity, other: &CelQuantity) -> CelInt {
    number(one.0.cmp(&other.0))
}

fn is_greater_than(one: &CelQuantity, other: &CelQuantity) -> CelBool {
    CelBool::from(one.0 > other.0)
}

fn is_less_than(one: &CelQuantity, other: &CelQuantity) -> CelBool {
    CelBool::from(one.0 < other.0)
}

fn add(one: &CelQuantity, other: &CelQuantity) -> CelQuantity {
    CelQuantity(one.0.plus(other.0))
}

fn add_units(one: &CelQuantity, units: &CelInt) -> CelQuantity {
    CelQuantity(one.0.plus(of_units(units)))
}

fn sub(one: &CelQuantity, other: &CelQuantity) -> CelQuantity {
    CelQuantity(one.0.minus(other.0))
}

fn sub_units(one: &CelQuantity, units: &CelInt) -> CelQuantity {
    CelQuantity(one.0.minus(of_units(units)))
}

fn of_units(units: &CelInt) -> Quantity {
    Quantity::of_units(*units.inner())
}

fn is_integer(one: &CelQuantity) -> CelBool {
    CelBool::from(one.0.is_whole() && one.0.units().is_some())
}

fn as_integer(one: &CelQuantity) -> Result<CelInt, ExecutionError> {
    let units = one.0.units().filter(|_| one.0.is_whole());
    let units =
        units.ok_or_else(|| ExecutionError::function_error("asInteger", "cannot convert value to integer"));
    units.map(CelInt::from)
}

fn as_approximate_float(one: &CelQuantity) -> CelDouble {
    CelDouble::from(one.0.ratio_to(Quantity::of_units(1)))
}

fn sign(one: &CelQuantity) -> CelInt {
    number(one.0.cmp(&Quantity::ZERO))
}
