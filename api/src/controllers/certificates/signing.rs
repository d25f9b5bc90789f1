//! The built-in signers: approved requests get their certificate, or the condition `Failed`.
//!
//! Owns a certificate's validity: what is asked for, up to the signer's bound and the end of the authority, and begun
//! some minutes ago, because clocks differ.

use std::convert::Infallible;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_raft::Store;
use orch_rules::Action;
use orch_rules::certificates::{BuiltinSigner, CertificateRequest, KeyUsages};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Client, Progress, Stored, has_condition, work};
use crate::ambient::Timestamp;
use crate::error::ApiError;
use crate::signing::{CertificateSigner, SigningError, Template, Validity};

/// Validity begins this long before now, as in the reference.
const BACKDATE_S: i64 = 5 * 60;
/// A certificate of a shorter life keeps it whole; the end of a longer one is backdated, too. As in the reference.
const SHORT_S: i64 = 8 * 3600;
/// Shortest validity that is signed, whatever is asked for: twice the backdating.
const LIFE_S_MIN: i64 = 10 * 60;

/// Signs requests. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(
    client: &Client<S>,
    signer: &dyn CertificateSigner,
) -> Result<Infallible, ApiError> {
    work((client, "certificate_signing"), is_open, |stored, _| pass(client, signer, stored)).await
}

fn is_open(brand: &Brand, request: &Value) -> bool {
    BuiltinSigner::named(brand, request.at("spec").text("signerName")).is_some()
        && request.at("status").is_empty_at("certificate")
        && has_condition(request, "Approved")
        && !has_condition(request, "Denied")
        && !has_condition(request, "Failed")
}

async fn pass<S: Store>(
    client: &Client<S>,
    signer: &dyn CertificateSigner,
    stored: Stored,
) -> Result<Progress, ApiError> {
    let name = stored.spec().text("signerName");
    let builtin = BuiltinSigner::named(client.registry().brand, name);
    let Some(builtin) = builtin.filter(|builtin| signer.signs_for(*builtin)) else {
        return Ok(Progress::Settled);
    };
    let Ok(request) = stored.request() else { return Ok(Progress::Settled) };
    if let Err(refusal) = builtin.check(&request, &stored.usages()) {
        let (reason, message) = ("SignerValidationFailure", refusal.to_string());
        let condition = json!({"type": "Failed", "status": "True", "reason": reason, "message": message});
        stored.add_condition(client, Action::Status, condition).await?;
        return Ok(Progress::Settled);
    }
    // An unknown usage of an older object: nothing can be signed for it, ever.
    let Ok(usages) = KeyUsages::named(stored.usages()) else { return Ok(Progress::Settled) };
    let asked = stored.spec().int("expirationSeconds");
    // date: the certificate begins and ends by the time of day.
    let certificate = issue(signer, builtin, request, usages, asked, client.now_ms());
    let certificate = certificate.map_err(|error| ApiError::Internal(error.to_string()))?;
    let status = json!({"certificate": STANDARD.encode(certificate)});
    stored.patch_status(client, Action::Status, status).await?;
    tracing::info!(request = %stored.path, signer = name, "certificate issued");
    Ok(Progress::Settled)
}

fn issue(
    signer: &dyn CertificateSigner,
    builtin: BuiltinSigner,
    request: CertificateRequest,
    usages: KeyUsages,
    asked_s: Option<i64>,
    now_ms: u64,
) -> Result<String, SigningError> {
    let authority = signer.authority(builtin)?;
    let now_s = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
    let validity = validity(now_s, life(asked_s, signer.life_s_max()), authority.not_after_s())?;
    let CertificateRequest { subject, public_key, names, .. } = request;
    authority.sign(&Template { subject, public_key, names, usages, validity })
}

/// How long the certificate is valid, in seconds.
pub(super) fn life(asked_s: Option<i64>, life_s_max: i64) -> i64 {
    match asked_s {
        None => life_s_max,
        Some(asked) if asked > life_s_max => life_s_max,
        Some(asked) => asked.max(LIFE_S_MIN),
    }
}

/// The validity of a certificate made at `now_s` for `life_s` by an authority that ends at `authority_s`.
pub(super) fn validity(now_s: i64, life_s: i64, authority_s: i64) -> Result<Validity, SigningError> {
    if now_s >= authority_s {
        let seconds = u64::try_from(authority_s).unwrap_or_default();
        return Err(SigningError::Expired(Timestamp(seconds.saturating_mul(1_000_000)).seconds_text()));
    }
    let end_s = now_s.saturating_add(if life_s < SHORT_S { life_s } else { life_s - BACKDATE_S });
    Ok(Validity { not_before_s: now_s - BACKDATE_S, not_after_s: end_s.min(authority_s) })
}
