//! A handler that panics: what the process prints of the request.
//!
//! A panic ends the released program. Here, where it does not, the print alone is looked at.

use std::backtrace::Backtrace;
use std::sync::{Mutex, PoisonError};

use http::header::AUTHORIZATION;

use super::*;

const CANARY: &str = "canary-in-a-panic";

/// What the panics of this test would print, with a full backtrace.
static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps what panics of the handler print, and prints all of them as before.
fn keep_prints() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string();
        if text.contains("the handler broke") {
            let trace = Backtrace::force_capture();
            PRINTED.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{text}\n{trace}"));
        }
        before(panic);
    }));
}

/// A request with a token, whose handler panics.
fn breaking(uri: &str) -> Request<Empty<Bytes>> {
    let mut request = request(uri);
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {CANARY}").parse().unwrap());
    request
}

#[tokio::test]
async fn a_panic_prints_nothing_of_the_request_that_its_handler_holds() {
    keep_prints();
    let fixture = start();
    let broken = fixture.one(None).await.send_request(breaking("/panic")).await;
    assert!(broken.is_err(), "{broken:?}");
    let broken = fixture.two(None).await.send_request(breaking("https://localhost/panic")).await;
    assert!(broken.is_err(), "{broken:?}");
    let printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(printed.len(), 2);
    for text in &*printed {
        assert!(!text.contains(CANARY), "{text}");
    }
}
