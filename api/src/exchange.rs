//! One request and what becomes of it, in one value.
//!
//! Owns what is known of a request from its first byte to its answer: an id, who asks, how that was ruled on, what the client is
//! warned of, the code of the answer. The stages fill it in on the way in, and [`Exchange::close`] is called once on the way out: what is
//! told of every request (headers, logs) is told there. It decides nothing.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Response};

use crate::ambient::{Ambient, Timestamp, uuid_text};
use crate::authn::User;
use crate::authz::Ruling;

/// Names an exchange in logs of client and server. A client may send its own.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Characters of an id that a client chose: as much as a log line is to hold of it. A longer one is not taken.
const ID_LENGTH_MAX: usize = 64;

/// Warnings sent with one answer, as many as the reference sends, and bytes of each: what headers may hold.
const WARNINGS_MAX: usize = 100;
const WARNING_BYTES_MAX: usize = 512;

/// A request, and what becomes of it.
#[derive(Debug)]
pub struct Exchange {
    id: String,
    began: Timestamp,
    user: OnceLock<Arc<User>>,
    ruling: OnceLock<Ruling>,
    warnings: Mutex<Vec<String>>,
}

impl Exchange {
    /// A request with these headers.
    pub fn begin(headers: &HeaderMap, ambient: &dyn Ambient) -> Self {
        let sent = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
        let id = match sent.filter(|id| !id.is_empty() && id.len() <= ID_LENGTH_MAX) {
            Some(id) => id.to_owned(),
            None => uuid_text(ambient.random()),
        };
        Exchange { id, ..Exchange::of_nobody(ambient.now()) }
    }

    /// A request that `user` makes from inside of the node, without a gate.
    pub fn internal(user: Arc<User>) -> Self {
        Exchange { user: OnceLock::from(user), ..Exchange::of_nobody(Timestamp::default()) }
    }

    fn of_nobody(began: Timestamp) -> Self {
        let (user, ruling) = (OnceLock::new(), OnceLock::new());
        Exchange { id: String::new(), began, user, ruling, warnings: Mutex::default() }
    }

    /// Its name in logs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Who asks, once the gate knows.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.get()
    }

    /// Notes who asks.
    pub(crate) fn set_user(&self, user: Arc<User>) {
        // A request passes the gate once.
        let _ = self.user.set(user);
    }

    /// Notes whether he may.
    pub(crate) fn set_ruling(&self, ruling: Ruling) {
        let _ = self.ruling.set(ruling);
    }

    /// Has the client told of these texts, each once, with whatever answer it gets.
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            // few: as many as are told.
            if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }

    /// What the client is to be told of, so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the exchange with the head of its answer: adds its id and warnings, and logs it.
    pub fn close<B>(&self, method: &Method, path: &str, response: &mut Response<B>, now: Timestamp) {
        const WARNING: HeaderName = HeaderName::from_static("warning");
        let headers = response.headers_mut();
        for text in &*self.warnings.lock().unwrap_or_else(PoisonError::into_inner) {
            // In the form of RFC 7234, which clients of the reference parse.
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{}\"", quotable(text))) {
                headers.append(WARNING, value);
            }
        }
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(AUDIT_ID, id);
        }
        tracing::debug!(
            id = self.id,
            %method,
            path,
            user = self.user.get().map_or("", |user| &user.name),
            ruling = self.ruling.get().map(tracing::field::display),
            code = response.status().as_u16(),
            micros = now.0.saturating_sub(self.began.0),
            "answered"
        );
    }
}

/// `text` as it may stand between quotes in a header: escaped, without control characters, not too long.
fn quotable(text: &str) -> String {
    let mut quotable = String::with_capacity(text.len().min(WARNING_BYTES_MAX));
    for character in text.chars() {
        if quotable.len() >= WARNING_BYTES_MAX {
            break;
        }
        match character {
            '"' | '\\' => quotable.extend(['\\', character]),
            control if control.is_control() => quotable.push(' '),
            other => quotable.push(other),
        }
    }
    quotable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ambient::SystemAmbient;

    fn closed(exchange: &Exchange) -> HeaderMap {
        let mut response = Response::new(());
        exchange.close(&Method::GET, "/x", &mut response, Timestamp(1));
        response.headers().clone()
    }

    #[test]
    fn warnings_are_quoted_bounded_and_told_once() {
        let exchange = Exchange::begin(&HeaderMap::new(), &SystemAmbient);
        let texts = ["unknown field \"a\\b\"".to_owned(), "two\nlines".to_owned(), "x".repeat(5000)];
        exchange.warn(texts.clone());
        exchange.warn(texts);
        exchange.warn((0..500).map(|number| number.to_string()));
        let headers = closed(&exchange);
        let texts: Vec<&str> =
            headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
        assert_eq!(texts[0], r#"299 - "unknown field \"a\\b\"""#);
        assert_eq!(texts[1], r#"299 - "two lines""#);
        assert!(texts[2].len() < 600);
        assert_eq!((texts.len(), texts[3]), (WARNINGS_MAX, "299 - \"0\""));
    }

    #[test]
    fn a_client_names_its_exchange_or_gets_a_name() {
        let id = |sent: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.extend(sent.map(|id| (AUDIT_ID, HeaderValue::from_str(id).unwrap())));
            closed(&Exchange::begin(&headers, &SystemAmbient))[AUDIT_ID].to_str().unwrap().to_owned()
        };
        assert_eq!(id(Some("mine")), "mine");
        for sent in [None, Some(""), Some(&*"x".repeat(65))] {
            assert_eq!(id(sent).len(), 36, "{sent:?}");
        }
        assert_ne!(id(None), id(None));
    }
}
