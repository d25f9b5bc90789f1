//! The one-line text form of events: `--audit-log-format legacy`, as in the reference.
//!
//!     TIME AUDIT: id="..." stage="..." ip="..." method="..." user="..." groups="..." as="..." asgroups="..." ...
//!
//! Owns the translation from an event's JSON. It shows less than the JSON does, and nothing that the JSON does not.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The members of an event that the line shows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(rename = "sourceIPs")]
    source_ips: Vec<String>,
    user_agent: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    groups: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectReference {
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: i64,
}

/// The line of the event `json`, without its end.
///
/// # Errors
/// `json` is no event.
pub(super) fn line(json: &[u8]) -> Result<String, serde_json::Error> {
    let event: Event = serde_json::from_slice(json)?;
    let (mut user, mut groups) = ("<none>", "<none>".to_owned());
    if !event.user.username.is_empty() {
        user = &event.user.username;
        groups = event.user.groups.as_deref().filter(|groups| !groups.is_empty()).map_or(groups, quoted_list);
    }
    let (mut acting, mut acting_groups) = ("<self>", "<lookup>".to_owned());
    if let Some(impersonated) = &event.impersonated_user {
        acting = &impersonated.username;
        acting_groups = impersonated.groups.as_deref().map_or(acting_groups, quoted_list);
    }
    let namespace = event.object_ref.as_ref().map(|object| object.namespace.as_str());
    let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("<none>");
    let response = event.response_status.as_ref();
    let response = response.map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
    let address = event.source_ips.first().map_or("<unknown>", String::as_str);
    let mut line = format!("{} AUDIT:", short_time(&event.request_received_timestamp));
    for (name, text) in [
        ("id", event.audit_id.as_str()),
        ("stage", &event.stage),
        ("ip", address),
        ("method", &event.verb),
        ("user", user),
        ("groups", &groups),
        ("as", acting),
        ("asgroups", &acting_groups),
        ("user-agent", &event.user_agent),
        ("namespace", namespace),
        ("uri", &event.request_uri),
        ("response", &response),
    ] {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        quote(&mut line, text);
    }
    Ok(line)
}

/// Quoted texts, separated by commas. They are quoted once more with the whole.
fn quoted_list(texts: &[String]) -> String {
    let mut list = String::new();
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            list.push(',');
        }
        quote(&mut list, text);
    }
    list
}

/// Appends `text` in quotes, with escapes for quotes, backslashes and whatever would break the line or hide in it.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            '\u{7}' => line.push_str("\\a"),
            '\u{8}' => line.push_str("\\b"),
            '\t' => line.push_str("\\t"),
            '\n' => line.push_str("\\n"),
            '\u{b}' => line.push_str("\\v"),
            '\u{c}' => line.push_str("\\f"),
            '\r' => line.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => line.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ if is_shown(character) => line.push(character),
            _ => match u32::from(character) {
                code @ 0..=0xffff => line.push_str(&format!("\\u{code:04x}")),
                code => line.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    line.push('"');
}

/// Whether a character is printed as it is: not controls, separators other than the space, and marks of direction or of
/// no width.
fn is_shown(character: char) -> bool {
    !character.is_control()
        && (character == ' ' || !character.is_whitespace())
        && !matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The time without zeros at the end of its fraction. A text that is no time is left as it is.
fn short_time(text: &str) -> String {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> serde_json::Value {
        json!({
            "kind": "Event", "apiVersion": "audit.orch.io/v1", "level": "Request", "auditID": "an-id",
            "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/n/pods/p", "verb": "get",
            "user": {"username": "ann", "groups": ["devs", "a\"b"]}, "sourceIPs": ["10.0.0.1", "10.0.0.2"],
            "userAgent": "kubectl/v1", "objectRef": {"resource": "pods", "namespace": "n", "name": "p"},
            "responseStatus": {"metadata": {}, "code": 200},
            "requestObject": {"data": "canary"},
            "requestReceivedTimestamp": "2026-01-02T03:04:05.120000Z", "stageTimestamp": "2026-01-02T03:04:06.000000Z",
        })
    }

    #[test]
    fn an_event_is_a_line_of_quoted_texts() {
        let found = line(event().to_string().as_bytes()).unwrap();
        let expected = r#"2026-01-02T03:04:05.12Z AUDIT: id="an-id" stage="ResponseComplete" ip="10.0.0.1" method="get" user="ann" groups="\"devs\",\"a\\\"b\"" as="<self>" asgroups="<lookup>" user-agent="kubectl/v1" namespace="n" uri="/api/v1/namespaces/n/pods/p" response="200""#;
        assert_eq!(found, expected);
    }

    #[test]
    fn members_that_an_event_lacks_have_a_word_of_their_own() {
        let found = line(br#"{"requestReceivedTimestamp":"2026-01-02T03:04:05.000000Z","user":{}}"#).unwrap();
        let expected = r#"2026-01-02T03:04:05Z AUDIT: id="" stage="" ip="<unknown>" method="" user="<none>" groups="<none>" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="" response="<deferred>""#;
        assert_eq!(found, expected);
        let mut acting = event();
        acting["impersonatedUser"] = json!({"username": "tom"});
        acting["user"]["groups"] = json!([]);
        let found = line(acting.to_string().as_bytes()).unwrap();
        assert!(found.contains(r#"groups="<none>" as="tom" asgroups="<lookup>""#), "{found}");
        acting["impersonatedUser"]["groups"] = json!(["g"]);
        let found = line(acting.to_string().as_bytes()).unwrap();
        assert!(found.contains(r#"as="tom" asgroups="\"g\"""#), "{found}");
        assert!(line(b"no event").is_err());
    }

    #[test]
    fn no_text_of_a_client_breaks_the_line() {
        let mut hostile = event();
        hostile["userAgent"] =
            json!("a\n2026 AUDIT: \t\r\0\u{7f}\u{2028}\u{202e}\u{feff}\u{e9}\u{1f600}\"\\");
        let found = line(hostile.to_string().as_bytes()).unwrap();
        let expected =
            "user-agent=\"a\\n2026 AUDIT: \\t\\r\\x00\\x7f\\u2028\\u202e\\ufeff\u{e9}\u{1f600}\\\"\\\\\"";
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1);
    }
}
