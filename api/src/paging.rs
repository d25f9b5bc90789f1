//! Continue tokens: position and revision of the next page of a list.
//!
//! Owns the token's encoding. Behind the path and a zero byte, which no path has, a token names how many objects the pages
//! before have shown, so that those that remain need not be counted: a member that does not know this goes on from there
//! all the same. A token is authenticated with the cluster's key and bound to the collection it was issued
//! for, so that a crafted token cannot name a key outside it. It expires five minutes after it was issued. Every node
//! of a cluster reads every node's tokens. A cluster that was made from an earlier one's objects (a restored snapshot, a
//! recovered member) knows earlier keys as well: their tokens count as expired at any age.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use orch_raft::Revision;
use sha2::Sha256;

use crate::ambient::Timestamp;

/// The cluster's key that authenticates continue tokens.
#[derive(Clone)]
pub struct TokenKey {
    own: [u8; 32],
    /// Keys of the clusters that this one was made from.
    earlier: Vec<[u8; 32]>,
}

/// Position of the next page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// Revision of the first page; `None` continues at the newest state (an inconsistent continuation).
    pub revision: Option<Revision>,
    /// Time at which the token was issued.
    pub issued: Timestamp,
    /// The last path (`namespace/name`) already sent.
    pub after: String,
    /// Number of objects up to it at that revision; `None` where it is not known, with selectors among them.
    pub sent: Option<u64>,
    /// The token is of a cluster that this one was made from, whose revisions and objects are others.
    pub is_earlier: bool,
}

/// A refused token. The error does not tell forgery, damage or another collection apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("continue key is not valid")]
pub struct InvalidToken;

/// Lifetime of a token: as long as history is kept by default.
const TOKEN_LIFETIME_MICROS: u64 = 5 * 60 * 1_000_000;

/// Bytes of the message authentication code: 128 bits.
const MAC_BYTES: usize = 16;

/// Version of the token's encoding; others are refused.
const FORM: u8 = 1;

/// Bytes before the path: version, revision, time.
const FIXED_BYTES: usize = 1 + 8 + 8;

impl TokenKey {
    /// The key, created with the cluster.
    pub fn new(bytes: [u8; 32]) -> Self {
        TokenKey { own: bytes, earlier: Vec::new() }
    }

    /// The same key in a cluster that was made from others, with the keys `earlier`.
    pub fn after(self, earlier: Vec<[u8; 32]>) -> Self {
        TokenKey { earlier, ..self }
    }

    /// Encodes and authenticates a token for the list of `scope` (storage, namespace).
    pub fn seal(&self, token: &ContinueToken, scope: (&str, &str)) -> String {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&token.revision.map_or(0, |revision| revision.0).to_be_bytes());
        bytes.extend_from_slice(&token.issued.0.to_be_bytes());
        bytes.extend_from_slice(token.after.as_bytes());
        if let Some(sent) = token.sent {
            bytes.push(0);
            bytes.extend_from_slice(sent.to_string().as_bytes());
        }
        let code = mac(&self.own, &bytes, scope).finalize().into_bytes();
        bytes.extend_from_slice(&code[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a token issued for the list of `scope`.
    ///
    /// # Errors
    /// The text was not made by [`TokenKey::seal`] with this key, nor with an earlier one, for this scope.
    pub fn open(&self, text: &str, scope: (&str, &str)) -> Result<ContinueToken, InvalidToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidToken)?;
        let body_end =
            bytes.len().checked_sub(MAC_BYTES).filter(|&end| end >= FIXED_BYTES).ok_or(InvalidToken)?;
        let (body, code) = bytes.split_at(body_end);
        let is_of = |key: &[u8; 32]| mac(key, body, scope).verify_truncated_left(code).is_ok();
        let is_earlier = !is_of(&self.own);
        if is_earlier && !self.earlier.iter().any(is_of) {
            return Err(InvalidToken);
        }
        let number =
            |at: usize| body[at..at + 8].try_into().map(u64::from_be_bytes).map_err(|_| InvalidToken);
        let after = std::str::from_utf8(&body[FIXED_BYTES..]).map_err(|_| InvalidToken)?;
        if body[0] != FORM {
            return Err(InvalidToken);
        }
        let revision = Some(Revision(number(1)?)).filter(|revision| revision.0 != 0);
        let (after, sent) = match after.split_once('\0') {
            Some((after, sent)) => (after, sent.parse().ok()),
            None => (after, None),
        };
        let (issued, after) = (Timestamp(number(9)?), after.to_owned());
        Ok(ContinueToken { revision, issued, after, sent, is_earlier })
    }
}

fn mac(key: &[u8; 32], body: &[u8], scope: (&str, &str)) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is accepted");
    mac.update(scope.0.as_bytes());
    mac.update(&[0]);
    mac.update(scope.1.as_bytes());
    mac.update(&[0]);
    mac.update(body);
    mac
}

impl ContinueToken {
    /// Whether the token is older than its lifetime, or than the cluster.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.is_earlier || now.0.saturating_sub(self.issued.0) > TOKEN_LIFETIME_MICROS
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> ContinueToken {
        let (revision, issued) = (Some(Revision(42)), Timestamp(7));
        let after = "ns/name".to_owned();
        ContinueToken { revision, issued, after, sent: Some(500), is_earlier: false }
    }

    #[test]
    fn a_token_opens_only_where_it_was_given() {
        let key = TokenKey::new([7; 32]);
        let text = key.seal(&token(), ("configmaps", "ns"));
        assert_eq!(key.open(&text, ("configmaps", "ns")), Ok(token()));
        let uncounted = ContinueToken { sent: None, ..token() };
        assert_eq!(key.open(&key.seal(&uncounted, ("", "")), ("", "")), Ok(uncounted));
        assert_eq!(key.open(&text, ("configmaps", "")), Err(InvalidToken), "widened to all namespaces");
        assert_eq!(key.open(&text, ("secrets", "ns")), Err(InvalidToken), "moved to another resource");
        assert_eq!(
            TokenKey::new([8; 32]).open(&text, ("configmaps", "ns")),
            Err(InvalidToken),
            "another cluster"
        );
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let key = TokenKey::new([7; 32]);
        let bytes = URL_SAFE_NO_PAD.decode(key.seal(&token(), ("configmaps", "ns"))).unwrap();
        for at in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[at / 8] ^= 1 << (at % 8);
            let text = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(key.open(&text, ("configmaps", "ns")), Err(InvalidToken), "bit {at}");
        }
        for garbage in ["", "garbage", "AAAA", "===="] {
            assert_eq!(key.open(garbage, ("configmaps", "ns")), Err(InvalidToken));
        }
    }

    #[test]
    fn tokens_of_the_cluster_before_have_expired() {
        let (scope, fresh) = (("configmaps", "ns"), Timestamp(7));
        let key = TokenKey::new([8; 32]).after(vec![[7; 32], [6; 32]]);
        for earlier in [7, 6] {
            let before = TokenKey::new([earlier; 32]).seal(&token(), scope);
            let opened = key.open(&before, scope).unwrap();
            assert_eq!(
                (&*opened.after, opened.is_earlier, opened.is_expired(fresh)),
                ("ns/name", true, true)
            );
            assert_eq!(key.open(&before, ("secrets", "ns")), Err(InvalidToken), "moved to another resource");
        }
        let own = key.open(&key.seal(&token(), scope), scope).unwrap();
        assert!(!own.is_earlier && !own.is_expired(fresh));
        let forged = TokenKey::new([9; 32]).seal(&token(), scope);
        assert_eq!(key.open(&forged, scope), Err(InvalidToken));
    }

    #[test]
    fn tokens_end_after_five_minutes() {
        let token = token();
        assert!(!token.is_expired(Timestamp(7 + TOKEN_LIFETIME_MICROS)));
        assert!(token.is_expired(Timestamp(8 + TOKEN_LIFETIME_MICROS)));
    }
}
