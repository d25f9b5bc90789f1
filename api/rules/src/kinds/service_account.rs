//! core/v1 ServiceAccount: references to secrets are names and nothing else.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::FieldErrors;
use crate::validate::tree::{Tree, items_mut};

/// The rules of service accounts.
#[derive(Debug)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        keep_names_of_secrets(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, _old: &Value, new: &mut Value) {
        keep_names_of_secrets(new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        object_meta::on_create(context, new)
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors
    }

    // The reference warns of the annotation that names the secrets pods may mount, unless it was there before.
    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        let key = context.brand.label("enforce-mountable-secrets");
        let has = |account: &Value| account.at("metadata").at("annotations").has(&key);
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        let instead = "prefer separate namespaces to isolate access to mounted secrets";
        vec![format!("metadata.annotations[{key}]: deprecated in v1.32+; {instead}")]
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![object.at("metadata").at("name").clone(), json!(age::age(object, now))])
    }
}

fn keep_names_of_secrets(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        *secret = json!({"name": secret.text("name")});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn secrets_are_referred_to_by_name() {
        let account =
            created(&ServiceAccount, json!({"secrets": [{"name": "s", "namespace": "other", "uid": "u"}]}));
        assert_eq!(account["secrets"], json!([{"name": "s"}]));
        check_create(&ServiceAccount, json!({}), &[]);
        check_update(&ServiceAccount, json!({}), json!({}), &[]);
        check_hostile(&ServiceAccount);
    }

    #[test]
    fn the_list_of_secrets_that_pods_may_mount_is_warned_of_once() {
        let plain = json!({"metadata": {"name": "a"}});
        let held = json!({"metadata": {"annotations": {"orch.io/enforce-mountable-secrets": "false"}}});
        let expected = "metadata.annotations[orch.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer \
                        separate namespaces to isolate access to mounted secrets";
        for (old, new, warned) in [
            (None, &held, true),
            (Some(&plain), &held, true),
            (Some(&held), &held, false),
            (None, &plain, false),
        ] {
            let warnings = ServiceAccount.warnings(&CONTEXT, old, new);
            assert_eq!(warnings, vec![expected; usize::from(warned)], "{old:?}");
        }
    }
}
