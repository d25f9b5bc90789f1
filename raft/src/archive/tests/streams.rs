//! Streams that broke: their names, and the places where they may be taken up again.

use super::*;

fn state() -> State {
    let mut state = State::default();
    for ((resource, path), object) in &some_objects() {
        state.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
    }
    state.finish_restore(Revision(90), Some(&BTreeMap::new()));
    state
}

#[test]
fn a_stream_has_the_name_that_its_reader_finds_and_another_header_another_name() {
    let (state, origin) = (state(), header(&Objects::new()));
    let file = write_state(Vec::new(), &origin, &state).unwrap();
    let name = stream_of(&origin, &state).unwrap();
    assert_eq!(Reader::open(&file[..]).unwrap().stream(), name);
    assert_eq!(name.len(), 64);
    let later = Header { time_ms: origin.time_ms + 1, ..origin.clone() };
    assert_ne!(stream_of(&later, &state).unwrap(), name);
    assert_eq!(write_state(Vec::new(), &origin, &state).unwrap(), file, "the same bytes again");
}

#[test]
fn the_sound_part_of_a_cut_file_ends_with_a_block_and_the_rest_makes_it_whole() {
    let objects = some_objects();
    let file = write(&header(&objects), &objects, 1);
    let mut places = std::collections::BTreeSet::new();
    for length in 0..file.len() {
        let Ok(mut reader) = Reader::open(&file[..length]) else { continue };
        assert!(reader.by_ref().any(|record| record.is_err()), "{length} bytes are no file");
        let sound = reader.sound_bytes();
        assert!(sound <= length as u64, "{sound} of {length}");
        places.insert(sound);
        let (found, rest) = file.split_at(usize::try_from(sound).unwrap());
        assert_eq!(read(&[found, rest].concat()).unwrap().0, header(&objects));
    }
    assert_eq!(places.len(), 2 + objects.len(), "the end of the header, of each block, and of the trailer");
}
