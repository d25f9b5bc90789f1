//! Health: checks by name, and the answers of `/healthz`, `/livez` and `/readyz`.

use std::sync::Arc;

use http::StatusCode;

use super::answer::{Answer, TEXT, answer, error, unsniffed};
use super::slis::Slis;

/// A check: `Err` says what is wrong. It is called for each request and must not wait.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks of a path.
#[derive(Clone, Default)]
pub struct Checks(Vec<(String, Check)>);

impl Checks {
    /// These checks and `check`, called `name`.
    #[must_use]
    pub fn with(mut self, name: &str, check: Check) -> Checks {
        self.0.push((name.to_owned(), check));
        self
    }

    /// Names of the checks.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The answer of the path `root`, a name without slash, to a request with `query`. What the checks find is counted in
    /// `slis`.
    pub(super) fn answer(&self, root: &'static str, query: &str, slis: &Slis) -> Answer {
        let parameters: Vec<(&str, &str)> =
            query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        let is_verbose = parameters.iter().any(|(name, _)| *name == "verbose");
        let mut excluded: Vec<&str> =
            parameters.iter().filter(|(name, _)| *name == "exclude").map(|(_, value)| *value).collect();
        let mut lines = String::new();
        let mut failed = Vec::new();
        for (name, check) in &self.0 {
            if excluded.contains(&name.as_str()) {
                excluded.retain(|excluded| excluded != name);
                lines.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            let outcome = check();
            slis.observe(name, root, &outcome);
            match outcome {
                Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
                Err(fault) => {
                    // The reason is for the log: whoever asks may be anybody.
                    lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    failed.push(format!("{name}: {fault}"));
                }
            }
        }
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        if !failed.is_empty() {
            tracing::debug!(root, failed = failed.join(", "), "a health check failed");
            return error(StatusCode::INTERNAL_SERVER_ERROR, &format!("{lines}{root} check failed"));
        }
        let body = if is_verbose { format!("{lines}{root} check passed\n") } else { "ok".to_owned() };
        unsniffed(answer(StatusCode::OK, TEXT, body))
    }

    /// The answer of the check `name` alone; `None` where there is none.
    pub(super) fn answer_single(&self, name: &str) -> Option<Answer> {
        let (_, check) = self.0.iter().find(|(known, _)| known == name)?;
        Some(match check() {
            Ok(()) => answer(StatusCode::OK, TEXT, "ok"),
            Err(fault) => {
                error(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {fault}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn checks() -> Checks {
        let broken: Check = Arc::new(|| Err("the secret reason".to_owned()));
        Checks::default().with("ping", Arc::new(|| Ok(()))).with("broken", broken)
    }

    async fn body(answer: Answer) -> String {
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn failures_are_named_and_their_reasons_withheld() {
        let answer = checks().answer("healthz", "", &Slis::default());
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let text = body(answer).await;
        assert_eq!(text, "[+]ping ok\n[-]broken failed: reason withheld\nhealthz check failed\n");
    }

    #[tokio::test]
    async fn checks_can_be_excluded_by_name() {
        let answer = checks().answer("livez", "verbose&exclude=broken&exclude=other", &Slis::default());
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(
            body(answer).await,
            "[+]ping ok\n[+]broken excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
             \"other\"\nlivez check passed\n"
        );
    }

    #[test]
    fn single_checks_have_paths() {
        assert_eq!(checks().answer_single("ping").unwrap().status(), StatusCode::OK);
        assert_eq!(checks().answer_single("broken").unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(checks().answer_single("other").is_none());
    }
}
