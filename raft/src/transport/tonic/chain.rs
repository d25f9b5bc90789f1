//! Limits of a certificate chain, for both ports and both sides of a connection.
//!
//! The remote end chooses the chain, and checking its signatures costs more than sending it.

use rustls::pki_types::CertificateDer;

/// Certificates of a chain: its end, two authorities between, and a root that need not be sent.
const CERTIFICATES_MAX: usize = 4;
/// Bytes of a chain: about ten times the size of four certificates with usual keys.
const BYTES_MAX: usize = 64 << 10;

/// Refuses a chain that is too long, before any of it is parsed.
///
/// # Errors
/// `General`, with the limit.
pub fn check_chain(
    end: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<(), rustls::Error> {
    if intermediates.len() >= CERTIFICATES_MAX {
        return Err(rustls::Error::General(format!("a chain of more than {CERTIFICATES_MAX} certificates")));
    }
    let bytes = intermediates.iter().fold(end.len(), |sum, certificate| sum + certificate.len());
    if bytes > BYTES_MAX {
        return Err(rustls::Error::General(format!("a chain of {bytes} bytes, more than {BYTES_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_bounded_by_count_and_bytes() {
        let of = |bytes: usize| CertificateDer::from(vec![0; bytes]);
        let check = |sizes: &[usize]| {
            let chain: Vec<_> = sizes.iter().map(|&bytes| of(bytes)).collect();
            check_chain(&chain[0], &chain[1..]).is_ok()
        };
        assert!(check(&[1]) && check(&[1; 4]) && check(&[BYTES_MAX]));
        assert!(!check(&[1; 5]) && !check(&[BYTES_MAX + 1]) && !check(&[BYTES_MAX, 1]));
    }
}
