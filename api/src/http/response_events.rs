//! Audit events of responses: their content, and when they are stored.
//!
//! Owns the event of a watch's end, and rendering an answer for an event: compact JSON in the view that the client asked
//! for, whatever its encoding. Nothing is rendered unless the audit policy asks for it.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use orch_proto::Brand;

use super::{Lasting, WatchResponse};
use crate::ambient::Timestamp;
use crate::audit::document;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::negotiate::{Encoding, Representation};
use crate::pipeline::{Answer, ListAnswer, Request};
use crate::render::{IncludeObject, Renderer};
use crate::status::Status;

/// Records what `request` is answered with.
pub(super) fn record_answer(
    request: Request<'_>,
    representation: Representation,
    include: IncludeObject,
    answer: &Answer,
    now: Timestamp,
) {
    let Some(trail) = request.exchange.trail() else { return };
    if let Answer::Done(status) = answer {
        trail.record_status(status, if status.code == 0 { 200 } else { status.code });
    }
    if !trail.shows_responses() {
        return;
    }
    let representation = Representation { encoding: Encoding::Json, pretty: false, ..representation };
    let renderer = Renderer::new(request.registry, request.resource, representation, include);
    let rendered = match answer {
        Answer::Done(_) => return,
        Answer::Stored(object) => renderer.object(object, now),
        Answer::Written(written) => renderer.written(written, now),
        Answer::List(list) | Answer::Listed(list) => renderer.list(copy_of(list), now),
    };
    // The response itself fails in the same way and says so.
    if let Ok(payload) = rendered {
        let bytes = payload.len();
        trail.record_response(document(payload.into_frames(), bytes));
    }
}

/// Records the failure that a request is answered with.
pub(super) fn record_failure(exchange: &Exchange, error: Option<&ApiError>, brand: &Brand) {
    let Some((trail, error)) = exchange.trail().zip(error) else { return };
    // A path outside of all APIs is answered without a Status.
    if !matches!(error, ApiError::NoPage) {
        let status = Status::of(error, brand);
        trail.record_status(&status, status.code);
    }
}

/// The same page; its objects are shared.
fn copy_of(list: &ListAnswer) -> ListAnswer {
    ListAnswer {
        revision: list.revision,
        continue_token: list.continue_token.clone(),
        remaining: list.remaining,
        objects: list.objects.clone(),
        effort: list.effort,
    }
}

/// Stores the events of a response that is about to be sent. One that lasts gets its last event when it ends.
pub async fn finish_audit(
    exchange: &Arc<Exchange>,
    headers: &HeaderMap,
    response: Response<Body>,
) -> Response<Body> {
    let Some(trail) = exchange.trail() else { return response };
    let lasts = response.extensions().get::<WatchResponse>().is_some();
    if !trail.answer(&exchange.facts(), headers, response.status(), lasts).await {
        return response;
    }
    let ending = WatchEnd(exchange.clone());
    if let Some(lasting) = response.extensions().get::<Lasting>() {
        lasting.keep(ending);
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            // Moved into the body, and dropped with it.
            let _ = &ending;
            frame
        }))
    })
}

/// Ends the trail of a watch when its stream ends or its client leaves.
struct WatchEnd(Arc<Exchange>);

impl Drop for WatchEnd {
    fn drop(&mut self) {
        if let Some(trail) = self.0.trail() {
            trail.close(&self.0.facts());
        }
    }
}
