//! Bytes of documents, which stand in base64 with the letters for addresses.
//!
//! Owns the reference's decoder: breaks of lines do not count, the bits that are left in the last letter may be any, and a
//! fault is told by its place.

/// Letters of a group, which is three bytes.
const GROUP: usize = 4;

/// The bytes of `text`, or the place of its fault.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / GROUP * 3);
    let mut letters = text.bytes().enumerate().filter(|(_, letter)| !matches!(letter, b'\r' | b'\n'));
    loop {
        let mut group = 0_u32;
        for read in 0..GROUP {
            let Some((at, letter)) = letters.next() else {
                return if read == 0 { Ok(bytes) } else { Err(text.len() - read) };
            };
            if letter == b'=' {
                if read < 2 {
                    return Err(at);
                }
                if read == 2 {
                    match letters.next() {
                        Some((_, b'=')) => {}
                        Some((other, _)) => return Err(other - 1),
                        None => return Err(text.len()),
                    }
                }
                bytes.extend_from_slice(&of_group(group << (6 * (GROUP - read)))[..read - 1]);
                return letters.next().map_or(Ok(bytes), |(behind, _)| Err(behind));
            }
            group = group << 6 | u32::from(six_bits(letter).ok_or(at)?);
        }
        bytes.extend_from_slice(&of_group(group));
    }
}

fn of_group(group: u32) -> [u8; 3] {
    let [_, bytes @ ..] = group.to_be_bytes();
    bytes
}

fn six_bits(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_faults_are_those_of_the_reference() {
        for (text, bytes) in [
            ("", Ok("")),
            ("QUJD", Ok("ABC")),
            ("QUI=", Ok("AB")),
            ("QQ==", Ok("A")),
            ("QUJDRH==", Ok("ABCD")),
            ("QU\nJD\r\n", Ok("ABC")),
            ("fn5-", Ok("~~~")),
            ("ab+/", Err(2)),
            ("QUJDR", Err(4)),
            ("QUJDRE", Err(4)),
            ("QQ=", Err(3)),
            ("QQ=A", Err(2)),
            ("QQ==QQ==", Err(4)),
            ("=QQQ", Err(0)),
            ("Q===", Err(1)),
        ] {
            let expected = bytes.map(|bytes: &str| bytes.as_bytes().to_vec());
            assert_eq!(decode(text), expected, "{text:?}");
        }
    }
}
