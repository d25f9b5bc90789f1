//! Memory bounds of one document; `stages`: each codec stops with its request.

mod stages;

use super::*;

#[test]
fn a_document_is_refused_at_its_bound() {
    let mut held = MemoryCounter::new(3 * ITEM_BYTES);
    assert_eq!([held.item(), held.item(), held.item()], [Ok(()); 3]);
    assert_eq!(held.item(), Err(OverBudget));
    let mut held = MemoryCounter::new(FILLED_FIELDS_MAX * ENTRY_BYTES);
    assert_eq!(held.object(1000), Ok(()), "an object of many fields has most of them not");
    assert_eq!(held.entry(), Err(OverBudget));
}
