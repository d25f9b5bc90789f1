//! Command lines of `orch kubeconfig` and `orch reset`.

use super::{cli, refuses};
use crate::cli::{AccountName, Command};

#[test]
fn a_configuration_is_for_a_user_or_for_a_service_account() {
    let parsed = cli("orch kubeconfig --user ann --group a --group b --certs-dir c --out o").unwrap();
    let Command::Kubeconfig(arguments) = parsed.command else { panic!("{parsed:?}") };
    assert_eq!((arguments.user.as_deref(), arguments.groups.len()), (Some("ann"), 2));
    let parsed = cli("orch kubeconfig --service-account shop/till --out o --valid-for 24h").unwrap();
    let Command::Kubeconfig(arguments) = parsed.command else { panic!("{parsed:?}") };
    let till = AccountName { namespace: "shop".to_owned(), name: "till".to_owned() };
    assert_eq!(arguments.service_account, Some(till));
    assert_eq!(arguments.valid_for.unwrap().as_secs(), 86_400);
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    for (arguments, expected) in [
        ("orch kubeconfig --out o", "<--user <NAME>|--service-account <NAMESPACE/NAME>>"),
        ("orch kubeconfig --user ann --out o", "--certs-dir"),
        ("orch kubeconfig --user ann --certs-dir c", "--out"),
        ("orch kubeconfig --user ann --service-account a/b --certs-dir c --out o", "cannot be used with"),
        ("orch kubeconfig --service-account a/b --group g --out o", "cannot be used with"),
        ("orch kubeconfig --service-account ab --out o", "is not NAMESPACE/NAME"),
        ("orch kubeconfig --service-account a/../b --out o", "lower case letters"),
        ("orch kubeconfig --user ann --certs-dir c --out o --valid-for 5s", "shorter than a minute"),
        ("orch reset", "--data-dir"),
    ] {
        let told = cli(arguments).unwrap_err();
        assert!(told.contains(expected), "{arguments}: {told}");
    }
    refuses("orch kubeconfig --user= --certs-dir c --out o", "at least one character");
}
