//! Feeds mutated examples and random bytes to every parser of untrusted input: a short fuzzing run that needs no other
//! compiler. `make fuzz` runs the same targets for as long as wanted.

mod examples;
mod targets;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

/// Inputs for each target: some seconds in a debug build, one in a release build.
const CASES: u32 = 16_384;

/// Pieces of syntax with a meaning in some format.
const PIECES: [&[u8]; 16] = [
    b"{", b"}", b"[", b"]", b"\"", b":", b",", b"\\", b"null", b"1e400", b"-0", b"\\ud800", b"\xff", b"\0",
    b"&a *a", b"$patch",
];

/// A mutation of an example.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, &'static [u8]),
    Remove(Index, usize),
    /// Repeats a stretch: number of repetitions, length.
    Repeat(Index, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), select(&PIECES[..])).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (at(), 1..16_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (at(), 1..12_usize, 1..400_usize).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
    ]
}

fn changed(mut input: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for edit in edits {
        let place = |at: Index| at.index(input.len() + 1);
        let end = |start: usize, length: usize| (start + length).min(input.len());
        match edit {
            Edit::Set(at, byte) => {
                let start = place(at);
                input.splice(start..end(start, 1), [byte]);
            }
            Edit::Insert(at, piece) => {
                let start = place(at);
                input.splice(start..start, piece.iter().copied());
            }
            Edit::Remove(at, length) => {
                let start = place(at);
                input.drain(start..end(start, length));
            }
            Edit::Repeat(at, length, times) => {
                let start = place(at);
                let stretch = input[start..end(start, length)].repeat(times);
                input.splice(start..start, stretch);
            }
        }
    }
    input
}

#[track_caller]
fn check(target: fn(&[u8]) -> bool, examples: Vec<Vec<u8>>) {
    let meant = examples.iter().filter(|example| target(example)).count();
    assert!(meant * 2 > examples.len(), "{meant} of {} examples mean something", examples.len());
    let noise = vec(any::<u8>(), 0..64);
    let edited = (select(examples), vec(edit(), 1..6)).prop_map(|(input, edits)| changed(input, edits));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&prop_oneof![1 => noise, 7 => edited], |input| {
        target(&input);
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

#[test]
fn decoders_take_anything() {
    check(targets::decode, examples::decode());
}

#[test]
fn label_selectors_take_anything() {
    check(targets::label_selector, examples::label_selector());
}

#[test]
fn field_selectors_take_anything() {
    check(targets::field_selector, examples::field_selector());
}

#[test]
fn no_continue_token_opens_but_ours() {
    check(targets::continue_token, examples::continue_token());
}

#[test]
fn requests_take_anything() {
    check(targets::request, examples::request());
}

#[test]
fn patches_take_anything() {
    check(targets::patch, examples::patch());
}

#[test]
fn field_paths_take_anything() {
    check(targets::field_paths, examples::field_paths());
}

#[test]
fn ownership_takes_anything() {
    check(targets::ownership, examples::ownership());
}

#[test]
fn prices_bound_anything() {
    check(targets::price, examples::price());
}

#[test]
fn every_fuzz_target_is_run_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/fuzz_targets");
    let here = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let target = path.file_stem().unwrap().to_str().unwrap();
        assert!(here.contains(&format!("check(targets::{target}, ")), "{target} has no test");
    }
}
