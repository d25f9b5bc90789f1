//! Flags: their syntax, defaults and errors.

use orch_proto::brand::{KUBERNETES, ORCH};

use super::*;

fn parsed(arguments: &[&str]) -> Result<CommandLine, FlagError> {
    parse(["scheduler"].iter().chain(arguments).map(Into::into).collect())
}

fn flags(arguments: &[&str]) -> Flags {
    parsed(arguments).unwrap().flags
}

#[test]
fn the_definition_is_sound_under_both_brands() {
    for brand in [&ORCH, &KUBERNETES] {
        command(brand).debug_assert();
        let help = command(brand).render_long_help().to_string();
        assert!(!help.contains('{'), "a placeholder is left: {help}");
    }
}

#[test]
fn names_follow_the_brand() {
    let line = parsed(&[
        "--brand=kubernetes",
        "--kube-api-qps=7",
        "--authentication-kubeconfig=x",
        "--kubeconfig=y",
    ]);
    let flags = line.unwrap().flags;
    assert_eq!(flags.deprecated.api_qps, Some(7.0));
    assert_eq!(flags.authentication.authentication_client_config, Some("x".into()));
    assert_eq!(flags.deprecated.client_config, Some("y".into()));
    assert_eq!(parsed(&["--kube-api-qps=7"]).unwrap_err().to_string(), "unknown flag: --kube-api-qps");
    let line = parsed(&["--brand", "kubernetes", "--kube-api-burst", "3"]).unwrap();
    assert_eq!((line.brand.name, line.flags.deprecated.api_burst), ("kubernetes", Some(3)));
    assert!(parsed(&["--brand=other"]).unwrap_err().to_string().contains("must be orch or kubernetes"));
}

#[test]
fn flags_are_shown_with_the_defaults_that_apply_later() {
    let shown = |arguments: &[&str], name: &str| {
        let shown = parsed(arguments).unwrap().shown;
        shown.into_iter().find(|(known, _)| known == name).unwrap().1
    };
    for (name, default) in [
        ("leader-elect", "true"),
        ("leader-elect-lease-duration", "15s"),
        ("leader-elect-renew-deadline", "10s"),
        ("leader-elect-retry-period", "2s"),
        ("leader-elect-resource-lock", "leases"),
        ("leader-elect-resource-name", "orch-scheduler"),
        ("leader-elect-resource-namespace", "orch-system"),
        ("lock-object-name", "orch-scheduler"),
        ("lock-object-namespace", "orch-system"),
        ("profiling", "true"),
        ("contention-profiling", "true"),
        ("orch-api-qps", "50"),
        ("orch-api-burst", "100"),
        ("pod-max-in-unschedulable-pods-duration", "5m0s"),
        ("config", ""),
    ] {
        assert_eq!(shown(&[], name), default, "{name}");
    }
    assert_eq!(shown(&["--leader-elect=false"], "leader-elect"), "false");
    assert_eq!(shown(&["--brand=kubernetes"], "lock-object-name"), "kube-scheduler");
}

#[test]
fn flags_are_written_as_in_the_reference() {
    assert_eq!(flags(&["--secure_port=5"]).serving.secure_port, 5, "underscores count as hyphens");
    assert_eq!(flags(&["--secure-port", "-1"]).serving.secure_port, -1, "a value may begin with a hyphen");
    assert_eq!(flags(&["--secure-port=1", "--secure-port=2"]).serving.secure_port, 2, "the last counts");
    assert!(flags(&["--permit-port-sharing"]).serving.permit_port_sharing);
    assert_eq!(flags(&["-v4"]).logs.verbosity, 4);
    assert_eq!(flags(&["-v", "5"]).logs.verbosity, 5);
    assert_eq!(flags(&["--v=6"]).logs.verbosity, 6);
    let error = parsed(&["--leader-elect", "false"]).unwrap_err().to_string();
    assert_eq!(error, "\"orch-scheduler\" does not take any arguments, got [\"false\"]");
    assert!(parsed(&["", "--secure-port=1", ""]).is_ok(), "empty arguments are none");
    assert!(parsed(&["", "x"]).unwrap_err().to_string().ends_with("got [\"\" \"x\"]"));
    let values = |flags: &Flags| {
        let lists = &flags.metrics.disabled_metrics;
        lists.iter().flat_map(|list| list.0.clone()).collect::<Vec<_>>()
    };
    assert_eq!(values(&flags(&["--disabled-metrics=a,b", "--disabled-metrics=c"])), ["a", "b", "c"]);
}

#[test]
fn errors_name_the_flag_and_the_value() {
    for (arguments, expected) in [
        (&["--secure-port"][..], "flag needs an argument: --secure-port"),
        (&["-v"], "flag needs an argument: 'v' in -v"),
        (&["-xv"], "unknown shorthand flag: 'x' in -xv"),
        (&["--nope=1"], "unknown flag: --nope"),
        (
            &["--help=perhaps"],
            "invalid argument \"perhaps\" for \"-h, --help\" flag: strconv.ParseBool: parsing \"perhaps\": invalid syntax",
        ),
        (
            &["--orch-api-burst=9999999999"],
            "invalid argument \"9999999999\" for \"--orch-api-burst\" flag: strconv.ParseInt: parsing \"9999999999\": value \
             out of range",
        ),
        (&["--no-such", "--secure-port=many"], "unknown flag: --no-such"),
    ] {
        assert_eq!(parsed(arguments).unwrap_err().to_string(), expected, "{arguments:?}");
    }
}

#[test]
fn an_empty_path_is_none() {
    let flags = flags(&["--config=", "--tls-cert-file=", "--orchconfig", "", "--client-ca-file=x"]);
    assert_eq!((flags.configuration.config, flags.serving.tls_cert_file), (None, None));
    assert_eq!(flags.deprecated.client_config, None);
    assert_eq!(flags.authentication.client_ca_file, Some("x".into()));
}

#[test]
fn a_blank_address_is_every_interface() {
    for text in ["--bind-address=", "--bind-address=0.0.0.0"] {
        assert!(flags(&[text]).serving.bind_address.is_unspecified());
    }
    assert!(flags(&["--bind-address=::1"]).serving.bind_address.is_ipv6());
}

#[test]
fn pairs_of_certificates_may_name_their_hosts() {
    let pairs =
        flags(&["--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.com,b.com"]).serving;
    let [first, second] = &pairs.tls_sni_cert_key[..] else { panic!("two pairs: {pairs:?}") };
    assert_eq!((first.certificate.to_str(), first.names.len()), (Some("a.crt"), 0));
    assert_eq!(
        (second.key.to_str(), &second.names[..]),
        (Some("b.key"), &["*.b.com".to_owned(), "b.com".to_owned()][..])
    );
}

#[test]
fn gates_of_a_stage_yield_to_gates_by_name() {
    let gates = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        crate::config::Features::parse(&texts)
    };
    let features = gates(&["SchedulerAsyncPreemption=true", "AllBeta=false,Unheard=true"]).unwrap();
    let is_on = |name: &str| features.known().iter().any(|feature| feature.name == name && feature.is_on);
    assert!(is_on("SchedulerAsyncPreemption") && !is_on("LoggingBetaOptions"));
    assert_eq!(features.moved().map(|feature| feature.name).collect::<Vec<_>>(), ["LoggingBetaOptions"]);
    assert_eq!(features.unknown().collect::<Vec<_>>(), ["Unheard"]);
    assert_eq!(gates(&["X"]).unwrap_err(), "missing bool value for feature gate X");
}

#[test]
fn every_flag_is_shown_with_its_value() {
    let shown = parsed(&["--secure-port=5", "--leader-elect=false"]).unwrap().shown;
    let value = |name: &str| shown.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(value("secure-port"), Some("5"));
    assert_eq!(value("leader-elect"), Some("false"));
    assert_eq!(value("authorization-always-allow-paths"), Some("/healthz,/readyz,/livez"));
    assert_eq!(value("config"), Some(""));
}
