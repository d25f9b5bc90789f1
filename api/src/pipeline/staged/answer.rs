//! Answers behind the conversion stage: stored objects, lists and written documents in the form of the request's version.
//!
//! Owns which objects of an answer are converted. How they are converted is the parent's.

use std::sync::Arc;

use orch_schema::budget::count_step;
use orch_schema::encode_json;

use super::super::{Answer, ListAnswer, Request, Written};
use super::{Target, convert, convert_all, form_of, is_shown};
use crate::conversion::Staged;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::waiting::waited;

/// `answer` as `resource` shows it: the stage between the state and the renderer.
///
/// # Errors
/// `Unconverted`; `Internal` for stored bytes that cannot be read.
pub(in crate::pipeline) async fn shown(
    resource: &Arc<Resource>,
    answer: Answer,
    request: Request<'_>,
) -> Result<Answer, ApiError> {
    let Some(staged) = resource.staged() else { return Ok(answer) };
    let is_shown = match &answer {
        Answer::Stored(object) => is_shown(staged, object),
        Answer::Written(written) => written.written_as.as_ref() == Some(&staged.shown),
        Answer::List(_) | Answer::Listed(_) | Answer::Done(_) => false,
    };
    if is_shown {
        return Ok(answer);
    }
    Box::pin(shown_staged(resource, staged, answer, request)).await
}

async fn shown_staged(
    resource: &Arc<Resource>,
    staged: &Staged,
    answer: Answer,
    request: Request<'_>,
) -> Result<Answer, ApiError> {
    Ok(match answer {
        Answer::Stored(object) => {
            let mut objects = [object];
            convert_all(resource, &mut objects, request.budget, request.exchange.onward()).await?;
            let [object] = objects;
            Answer::Stored(object)
        }
        Answer::List(mut list) => {
            shown_list(resource, &mut list, request).await?;
            Answer::List(list)
        }
        // Converted before the first object was deleted.
        Answer::Listed(list) => Answer::Listed(list),
        Answer::Written(written) => Answer::Written(shown_written(resource, staged, written, request).await?),
        Answer::Done(status) => Answer::Done(status),
    })
}

/// Puts the objects of a list into the form of `resource`'s version. Those that another server has converted before are not sent again.
pub(in crate::pipeline) async fn shown_list(
    resource: &Arc<Resource>,
    list: &mut ListAnswer,
    request: Request<'_>,
) -> Result<(), ApiError> {
    if let Some(staged) = resource.staged()
        && let Some(kept) = staged.converter.kept()
    {
        let old = list.objects.iter_mut().take_while(|_| count_step());
        for object in old.filter(|object| !is_shown(staged, object)) {
            if let Some(shown) = kept.find(&staged.shown, object) {
                *object = shown;
            }
        }
    }
    convert_all(resource, &mut list.objects, request.budget, request.exchange.onward()).await
}

async fn shown_written(
    resource: &Arc<Resource>,
    staged: &Staged,
    written: Written,
    Request { budget, exchange, .. }: Request<'_>,
) -> Result<Written, ApiError> {
    let Written { json, stored, written_as, outcome } = written;
    if written_as.as_ref() == Some(&staged.shown) {
        return Ok(Written { json, stored, written_as, outcome });
    }
    let (before, written_as) = (written_as, Some(staged.shown.clone()));
    if let Some(object) = stored {
        let mut objects = [object];
        convert_all(resource, &mut objects, budget, exchange.onward()).await?;
        let [object] = objects;
        return Ok(Written { json: object.json.clone(), stored: Some(object), written_as, outcome });
    }
    // A dry run, or the last form of an object that is gone: it need not have a revision.
    let value = serde_json::from_slice(&json)
        .map_err(|error| ApiError::Internal(format!("an object that was written cannot be read: {error}")))?;
    let pieces = vec![(form_of(staged, before.as_ref()), value)];
    let values = waited(convert(resource, staged, Target::Shown, pieces, exchange.onward()), budget).await?;
    let mut json = Vec::with_capacity(json.len());
    budget.check()?;
    for value in values {
        encode_json(&resource.schema, resource.type_id, &value, &mut json);
    }
    Ok(Written { json: json.into(), stored: None, written_as, outcome })
}
