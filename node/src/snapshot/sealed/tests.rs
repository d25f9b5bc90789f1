//! Round trips, a file of the format's own program, and files that are refused.

use std::io::{Read, Write};

use super::*;

fn seal(text: &[u8], recipients: &[Recipient]) -> Vec<u8> {
    let mut sealer = Sealer::begin(Vec::new(), recipients).unwrap();
    sealer.write_all(text).unwrap();
    sealer.finish().unwrap().0
}

fn open(file: &[u8], identities: &[Identity]) -> Result<Vec<u8>, SealedError> {
    let mut text = Vec::new();
    Opener::open(file, identities)?.read_to_end(&mut text)?;
    Ok(text)
}

#[test]
fn a_sealed_file_is_opened_by_each_key_and_by_no_other() {
    let keys: Vec<Identity> = (0..3).map(|_| Identity::generate().unwrap()).collect();
    let recipients = [keys[0].recipient(), keys[1].recipient()];
    for length in [0, 1, payload::CHUNK_BYTES - 1, payload::CHUNK_BYTES, payload::CHUNK_BYTES + 1, 200_000] {
        let text: Vec<u8> = (0..=255).cycle().take(length).collect();
        let file = seal(&text, &recipients);
        assert!(file.starts_with(FIRST_LINE));
        for key in &keys[..2] {
            let again = identities(&key.secret_text()).unwrap();
            assert!(open(&file, &again).unwrap() == text, "{length} bytes");
        }
        assert!(matches!(open(&file, &keys[2..]), Err(SealedError::WrongIdentity)), "{length} bytes");
        assert!(open(&file, &keys).unwrap() == text, "one of several keys");
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_found() {
    let key = [Identity::generate().unwrap()];
    let text = b"what is in a snapshot";
    let file = seal(text, &[key[0].recipient()]);
    for bit in 0..8 * file.len() {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&changed, &key).is_err(), "bit {bit} of {}", file.len());
    }
    for length in 0..file.len() {
        assert!(open(&file[..length], &key).is_err(), "{length} of {} bytes", file.len());
    }
    let mut longer = file.clone();
    longer.push(0);
    assert!(open(&longer, &key).is_err(), "a byte more");
}

#[test]
fn a_cut_between_two_chunks_is_found_and_chunks_cannot_be_exchanged() {
    let key = [Identity::generate().unwrap()];
    let text = vec![7; 3 * payload::CHUNK_BYTES];
    let file = seal(&text, &[key[0].recipient()]);
    let chunk = payload::CHUNK_BYTES + 16;
    let begin = file.len() - 3 * chunk;
    assert!(open(&file, &key).unwrap() == text);
    assert!(open(&file[..begin + 2 * chunk], &key).is_err(), "the last chunk is left out");
    assert!(open(&file[..begin], &key).is_err(), "all chunks are left out");
    let mut exchanged = file.clone();
    exchanged[begin..begin + 2 * chunk].rotate_left(chunk);
    assert!(open(&exchanged, &key).is_err());
}

#[test]
fn keys_are_read_as_they_are_written_and_nothing_else_is() {
    let key = Identity::generate().unwrap();
    let (public, private) = (key.recipient().to_string(), key.secret_text());
    assert!(public.starts_with("age1") && public.len() == 62, "{public}");
    assert!(private.starts_with("AGE-SECRET-KEY-1") && private.len() == 74);
    assert_eq!(Recipient::parse(&public).unwrap(), key.recipient());
    let file = format!("# a comment\n\n  {}\n", *private);
    assert_eq!(identities(&file).unwrap()[0].recipient(), key.recipient());
    for bad in ["", "age1", &private, &public.replace("age1", "agf1"), &public[..61]] {
        assert!(Recipient::parse(bad).is_err(), "a bad public key of {} characters", bad.len());
    }
    for bad in ["", "# nothing", &public, &private[..73]] {
        assert!(identities(bad).is_err(), "a bad private key of {} characters", bad.len());
    }
    let shown = identities(&private[..73]).err().map(|error| error.to_string()).unwrap();
    assert!(!shown.contains(&private[20..40]), "an error shows no key");
}

#[test]
fn a_public_key_that_every_key_agrees_with_is_refused() {
    let weak = Recipient(x25519_dalek::PublicKey::from([0; 32]));
    assert!(matches!(Sealer::begin(Vec::new(), &[weak]), Err(SealedError::WeakRecipient)));
}

#[test]
fn the_key_of_a_file_reads_it_again_and_finds_every_changed_bit_and_every_cut() {
    let recipients = [Identity::generate().unwrap().recipient(), Identity::generate().unwrap().recipient()];
    let text = b"what is in a snapshot";
    let mut sealer = Sealer::begin(Vec::new(), &recipients).unwrap();
    sealer.write_all(text).unwrap();
    let (file, key) = sealer.finish().unwrap();
    let read = |file: &[u8], key: &FileKey| -> Result<Vec<u8>, SealedError> {
        let mut text = Vec::new();
        Opener::with_key(file, key)?.read_to_end(&mut text)?;
        Ok(text)
    };
    assert_eq!(read(&file, &key).unwrap(), text);
    for bit in 0..8 * file.len() {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&changed, &key).is_err(), "bit {bit} of {}", file.len());
    }
    for length in 0..file.len() {
        assert!(read(&file[..length], &key).is_err(), "{length} of {} bytes", file.len());
    }
    let other = Sealer::begin(Vec::new(), &recipients).unwrap().finish().unwrap().1;
    assert!(matches!(read(&file, &other), Err(SealedError::Header(_))), "the key of another file");
}
