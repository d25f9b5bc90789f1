//! kubectl with a bootstrap token: from the secret to its end.

use super::{Session, in_session_with};

const NAME: &str = "bootstrap-token-abcdef";
const TOKEN: &str = "abcdef.0123456789abcdef";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_is_known_by_a_bootstrap_token_while_its_secret_stands() {
    in_session_with(&["--enable-bootstrap-token-auth"], known).await;
}

fn known(session: &Session) {
    session.text(&[
        "-n",
        "kube-system",
        "create",
        "secret",
        "generic",
        NAME,
        "--type=bootstrap.kubernetes.io/token",
        "--from-literal=token-id=abcdef",
        "--from-literal=token-secret=0123456789abcdef",
        "--from-literal=usage-bootstrap-authentication=true",
        "--from-literal=auth-extra-groups=system:bootstrappers:shop",
    ]);
    assert_eq!(
        session.by_token(TOKEN, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).unwrap(),
        "system:bootstrap:abcdef"
    );
    let groups =
        session.by_token(TOKEN, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"]).unwrap();
    assert!(groups.contains("system:bootstrappers:shop"), "{groups}");
    let refused = session.by_token(TOKEN, &["get", "secrets", "-A"]).unwrap_err();
    assert!(refused.contains("(Forbidden)") && refused.contains("system:bootstrap:abcdef"), "{refused}");
    session.text(&["-n", "kube-system", "delete", "secret", NAME]);
    let refused = session.by_token(TOKEN, &["auth", "whoami"]).unwrap_err();
    assert!(refused.contains("logged in"), "{refused}");
}
