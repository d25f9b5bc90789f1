//! Label selectors. What has to hold stands in `api/tests/arbitrary/targets.rs`.
#![no_main]

#[allow(dead_code, reason = "each target is one function of it")]
#[path = "../../tests/arbitrary/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    targets::label_selector(input);
});
