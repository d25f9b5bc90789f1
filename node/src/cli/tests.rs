//! Accepted and refused command lines and configuration files, with the text of their errors.

mod holders;
mod texts;

use std::path::Path;
use std::time::Duration;

use super::duration::parse_duration;
use super::*;

fn cli(arguments: &str) -> Result<Cli, String> {
    parse(arguments.split_whitespace().map(Into::into).collect()).map_err(|error| error.to_string())
}

/// The error of a command line whose files are looked for.
fn missing(arguments: &str) -> String {
    let parsed = parse_and_find_files(arguments.split_whitespace().map(Into::into).collect());
    parsed.map_err(|error| error.to_string()).unwrap_err()
}

fn dev(arguments: &str) -> DevArgs {
    match cli(&format!("orch dev {arguments}")).unwrap().command {
        Command::Dev(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

fn serve(arguments: &str) -> ServeArgs {
    match cli(&format!("orch serve {arguments}")).unwrap().command {
        Command::Serve(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

/// Checks that the first paragraph of the error contains `expected`.
fn refuses(arguments: &str, expected: &str) {
    let text = cli(arguments).unwrap_err();
    let first = text.split("\n\n").next().unwrap();
    assert!(first.contains(expected), "{arguments}: {first:?} does not say {expected:?}");
}

/// Writes `text` as `name` and parses `orch COMMAND --config FILE FLAGS`.
fn with_file(command: &str, name: &str, text: &str, flags: &str) -> Result<Cli, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    let directory = directory.path().display().to_string();
    cli(&format!("orch {command} --config {} {flags}", path.display()))
        .map_err(|e| e.replace(&directory, "D"))
}

fn served(result: Result<Cli, String>) -> ServeArgs {
    match result.unwrap().command {
        Command::Serve(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn help_has_its_long_text_however_it_is_asked_for() {
    for (asked, expected) in [
        ("orch help dev", "every request acts as the administrator"),
        ("orch dev --help", "every request acts as the administrator"),
        ("orch help cluster add", "The new member's name"),
        ("orch kubeconfig --help", "Neither credential gives"),
        ("orch reset --help", "never comes back under its name"),
        ("orch --help", "no external database is needed"),
        ("orch help", "no external database is needed"),
    ] {
        let text = cli(asked).unwrap_err();
        assert!(text.contains(expected), "{asked}: {text}");
    }
}

#[test]
fn help_of_a_node_fits_a_screen_and_says_where_the_rest_is() {
    for name in ["dev", "serve"] {
        let text = cli(&format!("orch {name} --help")).unwrap_err();
        let lines = text.lines().count();
        assert!(lines <= 60, "{lines} lines:\n{text}");
        assert!(text.contains("--data-dir") && text.contains("--help-all"), "{text}");
        assert!(text.contains("Audit") && !text.contains("--audit-log-path"), "{text}");
        let all = cli(&format!("orch {name} --help-all")).unwrap_err();
        assert!(all.contains("--audit-log-path") && all.contains("Audit:"), "{all}");
        let hidden = cli(&format!("orch {name} --audit-log-path x --audit-log-maxsize 1"));
        assert!(hidden.is_ok(), "what is not shown is not gone");
    }
}

#[test]
fn the_short_help_is_a_summary_and_the_list_of_commands_has_a_sentence_for_each() {
    for asked in ["orch -h", "orch --help"] {
        let text = cli(asked).unwrap_err();
        assert!(text.contains("Start one node for development: no preparation"), "{text}");
        assert!(!text.contains("Two doors") && !text.contains("Make the certificates once"), "{text}");
    }
    for name in ["dev", "serve"] {
        let (short, long) = (format!("orch {name} -h"), format!("orch {name} --help"));
        let (short, long) = (cli(&short).unwrap_err(), cli(&long).unwrap_err());
        assert!(short.contains("--data-dir") && short.contains("--help-all"), "{short}");
        assert!(!short.contains("Examples:") && long.contains("Examples:"), "{short}");
        assert!(short.lines().count() < long.lines().count(), "{short}");
    }
}

#[test]
fn misspelt_and_misplaced_commands_get_tips_at_every_level() {
    for (line, expected) in [
        ("orch serv", "serve"),
        ("orch sevre", "serve"),
        ("orch statsu", "`orch cluster status`"),
        ("orch found", "`orch cluster found`"),
        ("orch inspect", "`orch certs inspect`"),
        ("orch cluster statsu", "status"),
        ("orch certs ini", "init"),
        ("orch encryption rewriet", "rewrite"),
        ("orch help clustre", "cluster"),
        ("orch dve", "`orch dev`"),
        ("orch run", "`orch serve`"),
        ("orch start", "`orch dev`"),
        ("orch remove", "`orch cluster remove`"),
        ("orch renew", "`orch certs renew`"),
    ] {
        let text = cli(line).unwrap_err();
        assert!(text.contains("tip:") && text.contains(expected), "{line}: {text}");
    }
    let removal = cli("orch remove").unwrap_err();
    assert!(!removal.contains("serve"), "{removal}");
    assert!(!cli("orch zzzzzz").unwrap_err().contains("tip: did you mean"), "nothing is near");
}

/// Flags of files that another flag has to go with.
const TOGETHER: [(&str, &str); 6] = [
    ("tls-cert-file", "--tls-private-key-file"),
    ("kubelet-client-certificate", "--kubelet-client-key"),
    ("proxy-client-cert-file", "--proxy-client-key-file"),
    ("audit-policy-file", "--audit-log-path"),
    ("encryption-provider-config", "--data-dir"),
    ("oidc-ca-file", "--oidc-issuer-url=https://i.example --oidc-client-id"),
];

#[test]
fn every_file_flag_of_a_missing_file_or_of_a_directory_refuses_at_the_start() {
    use clap::CommandFactory;
    let mut root = Cli::command();
    root.build();
    let mut checked = 0;
    for name in ["dev", "serve"] {
        let command = root.find_subcommand(name).unwrap();
        for argument in command.get_arguments().filter(|argument| super::parse::reads_file(argument)) {
            let flag = argument.get_long().unwrap();
            for path in ["/nonexistent/file.yaml", "/tmp"] {
                let with = TOGETHER.iter().find(|(first, _)| *first == flag);
                let with = with.map(|(_, second)| format!("{second}=x")).unwrap_or_default();
                let error = missing(&format!("orch {name} --{flag}={path} {with}"));
                let expected = match flag {
                    "config" => format!("configuration file {path}"),
                    _ => format!("--{flag}: cannot read {path}"),
                };
                assert!(error.contains(&expected), "{error}");
            }
            checked += 1;
        }
        // A flag that names a file in its name reads one, but for those that are written.
        for argument in
            command.get_arguments().filter_map(|argument| argument.get_long().map(|long| (argument, long)))
        {
            let is_named_so = argument.1.ends_with("-file") || argument.1.ends_with("-config");
            assert!(!is_named_so || super::parse::reads_file(argument.0), "--{} reads no FILE", argument.1);
        }
    }
    assert!(checked > 50, "{checked}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    std::fs::write(&file, "client-ca-file = \"/nonexistent/ca\"").unwrap();
    let error = missing(&format!("orch serve --config {}", file.display()));
    assert_eq!(error, "--client-ca-file: cannot read /nonexistent/ca");
    let error = missing("orch cluster status --kubeconfig /nonexistent/admin.conf");
    assert_eq!(error, "--kubeconfig: cannot read /nonexistent/admin.conf");
}

#[test]
fn dev_needs_no_flags() {
    let arguments = dev("");
    assert_eq!(
        (arguments.shared.secure_port, arguments.insecure_port, arguments.peer_port),
        (6443, None, None)
    );
    assert_eq!(arguments.shared.watch_history, Duration::from_secs(300));
    assert_eq!(arguments.shared.watch_batch_delay, Duration::from_millis(5));
    assert_eq!(arguments.shared.event_ttl, Duration::from_secs(3600));
    assert_eq!(arguments.shared.state_quota, 4 << 30);
    assert_eq!(arguments.shared.brand, None);
    assert!(!arguments.no_scheduler && arguments.shared.anonymous_auth.is_none());
}

#[test]
fn watches_gather_for_a_second_at_most() {
    let delay = |text: &str| dev(&format!("--watch-batch-delay {text}")).shared.watch_batch_delay;
    assert_eq!((delay("0s"), delay("1s")), (Duration::ZERO, Duration::from_secs(1)));
    refuses("orch dev --watch-batch-delay 1001ms", "longer than a second");
    refuses("orch dev --watch-batch-delay 5", "--watch-batch-delay");
}

#[test]
fn booleans_are_given_alone_or_with_a_value() {
    assert!(dev("--no-scheduler").no_scheduler);
    assert!(dev("--no-scheduler=true").no_scheduler);
    assert!(!dev("--no-scheduler=false").no_scheduler);
    assert_eq!(dev("--anonymous-auth --secure-port 0").shared.anonymous_auth, Some(true));
    refuses("orch dev --anonymous-auth=maybe", "--anonymous-auth");
}

#[test]
fn clusters_are_lists_of_names_and_addresses() {
    let arguments = serve("--name a --initial-cluster a=10.0.0.1:1,b=[::1]:2,c=c.example.com:3");
    let members: Vec<_> =
        arguments.initial_cluster.unwrap().0.into_iter().map(|m| (m.name, m.address)).collect();
    let expected = [("a", "10.0.0.1:1"), ("b", "[::1]:2"), ("c", "c.example.com:3")]
        .map(|(n, a)| (n.to_owned(), a.to_owned()));
    assert_eq!(members, expected);
}

#[test]
fn bad_flags_are_named() {
    for (arguments, expected) in [
        ("orch dev --secure-port 70000", "--secure-port <PORT>': a port is a number, 0 to 65535"),
        ("orch dev --peer-port x", "--peer-port <PORT>': a port is a number, 0 to 65535"),
        ("orch certs add --dir d --member a=h --secure-port x", "a port is a number, 0 to 65535"),
        (
            "orch serve --authorization-mode ABAC",
            "the modes are AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook",
        ),
        ("orch dev --brand acme", "the brands are orch and kubernetes"),
        ("orch dev --secure-prot 1", "--secure-prot"),
        ("orch dev --watch-history 5", "expected a time such as 300s, 5m or 1h30m"),
        ("orch dev --watch-history 5d", "unknown unit \"d\""),
        ("orch dev --feature-gates A", "\"A\" is not NAME=true|false"),
        ("orch dev --feature-gates A=yes", "A must be true or false, not \"yes\""),
        ("orch dev --feature-gates A=true", "there is no feature \"A\"; there are APIListChunking, "),
        ("orch dev --log-format xml", "[possible values: text, json]"),
        ("orch dev --v 11", "0..=10"),
        ("orch serve --initial-cluster a", "\"a\" is not NAME=HOST:PORT"),
        ("orch serve --initial-cluster a=1.2.3.4:1,a=1.2.3.5:1", "member a is named twice"),
        ("orch serve --initial-cluster a=1.2.3.4:1,b=1.2.3.4:1", "address 1.2.3.4:1 is given to two members"),
        ("orch serve --initial-cluster A=1.2.3.4:1", "\"A\" is not a member name"),
        ("orch serve --initial-cluster ../x=1.2.3.4:1", "is not a member name"),
        ("orch serve --initial-cluster a..b=1.2.3.4:1", "is not a member name"),
        ("orch serve --initial-cluster a.-b=1.2.3.4:1", "is not a member name"),
        ("orch serve --join a:1 --name A", "is not a member name"),
        ("orch serve --peer-address ::1:2", "an IPv6 address stands in brackets"),
        ("orch serve --peer-address host", "is not HOST:PORT"),
        ("orch serve --peer-address host:x", "\"x\" is not a port"),
        ("orch serve --join a:1 --initial-cluster a=a:1", "cannot be used with"),
        ("orch certs init --dir d", "--member"),
        ("orch certs add --dir d", "--member"),
        ("orch certs init --dir d --member a", "is not NAME=HOST[,HOST...]"),
        ("orch certs init --dir d --member a=host:80", "is not an address or host name"),
        ("orch certs init --dir d --member a=x,", "\"\" is not an address or host name"),
        ("orch certs init --dir d --member a=1.2.3.4.5", "an IPv4 address has four parts"),
        ("orch certs add --dir d --member a=1.2.3", "an IPv4 address has four parts"),
        ("orch serve --advertise-address 1.2.3.4.5", "--advertise-address"),
        ("orch serve --advertise-address a:1", "(without a port)"),
        ("orch serve --peer-address 1.2.3.4.5:1", "an IPv4 address has four parts"),
        ("orch serve --initial-cluster a=1.2.3.4.5:1", "an IPv4 address has four parts"),
        ("orch serve --join a_b c:1", "unexpected argument"),
        ("orch certs init --dir d --member a=0.0.0.0", "is every address of a machine"),
        ("orch certs add --dir d --member a=10.0.0.1,::", "is every address of a machine"),
        ("orch serve --advertise-address ::", "is every address of a machine"),
        ("orch serve --initial-cluster a=[::]:1", "is every address of a machine"),
        ("orch cluster add d 0.0.0.0:1", "is every address of a machine"),
        ("orch cluster add d 1.2.3.4.5:1", "an IPv4 address has four parts"),
        ("orch cluster status --server http://a:1", "--server"),
        ("orch cluster status --server a", "is not HOST:PORT"),
    ] {
        refuses(arguments, expected);
    }
}

#[test]
fn times_read_as_the_ecosystem_writes_them() {
    for (text, seconds) in
        [("5m", 300.0), ("1h30m", 5400.0), ("90s", 90.0), ("250ms", 0.25), ("1.5h", 5400.0), ("0s", 0.0)]
    {
        assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
    }
    for text in ["", "5", "m", "-5m", "5m3", "9999999h", "1e9h"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}

#[test]
fn a_file_holds_the_flags_under_their_names() {
    let toml = "name = \"a\"\nsecure-port = 7443\nanonymous-auth = true\nwatch-history = \"10m\"\n\
        [initial-cluster]\na = \"h1:1\"\nb = \"h2:1\"\n[feature-gates]\nAPIListChunking = false\n";
    let yaml = "name: a\nsecure-port: 7443\nanonymous-auth: true\nwatch-history: 10m\n\
        initial-cluster:\n- a=h1:1\n- b=h2:1\nfeature-gates: APIListChunking=false\n";
    for (name, text) in [("c.toml", toml), ("c.yaml", yaml)] {
        let found = served(with_file("serve", name, text, ""));
        assert_eq!(found.name.as_deref(), Some("a"));
        assert_eq!(found.shared.secure_port, 7443);
        assert_eq!(found.shared.anonymous_auth, Some(true));
        assert_eq!(found.shared.watch_history, Duration::from_secs(600));
        assert_eq!(found.initial_cluster, "a=h1:1,b=h2:1".parse().ok());
        assert_eq!(found.shared.feature_gates.0.get("APIListChunking"), Some(&false));
    }
}

#[test]
fn a_flag_wins_over_the_file() {
    let text = "secure-port = 7443\nanonymous-auth = true\nv = 4\n[initial-cluster]\na = \"h:1\"\n";
    let found = served(with_file("serve", "c.toml", text, "--secure-port 0 --anonymous-auth=false"));
    assert_eq!((found.shared.secure_port, found.shared.anonymous_auth, found.shared.v), (0, Some(false), 4));
    let found = served(with_file("serve", "c.toml", text, "--join h:1"));
    assert_eq!((found.join.as_deref(), found.initial_cluster), (Some("h:1"), None));
}

#[test]
fn an_empty_file_changes_nothing() {
    assert_eq!(served(with_file("serve", "c.yaml", "# nothing\n", "")).shared.secure_port, 6443);
    assert_eq!(served(with_file("serve", "c.toml", "", "")).shared.secure_port, 6443);
}

#[test]
fn file_errors_say_what_and_where() {
    for (name, text, expected) in [
        ("c.toml", "secure-prot = 1", "D/c.toml: unknown key \"secure-prot\", did you mean \"secure-port\"?"),
        ("c.toml", "secure_port = 1", "unknown key \"secure_port\", did you mean \"secure-port\"?"),
        ("c.yaml", "tokenAuthFile: x", "unknown key \"tokenAuthFile\", did you mean \"token-auth-file\"?"),
        ("c.yaml", "zzz: x", "unknown key \"zzz\"; `orch serve --help-all` lists them"),
        ("c.yaml", "insecure-port: 1", "unknown key \"insecure-port\""),
        ("c.yaml", "config: x", "a configuration file cannot name another"),
        ("c.toml", "secure-port = 70000", "D/c.toml: invalid value '70000' for '--secure-port <PORT>'"),
        ("c.yaml", "secure-port: [1, [2]]", "secure-port: a list or table inside another is not allowed"),
        ("c.yaml", "name:", "name: a value is missing"),
        ("c.yaml", "just text", "a configuration is names and values"),
        ("c.toml", "name = ", "line 1"),
        ("c.yaml", "a: [", "line 2 column 1"),
        ("c.ini", "a=b", "the name must end in .toml, .yaml, .yml or .json"),
        ("c.yaml", "join: h:1\ninitial-cluster: a=h:1", "cannot be used with"),
    ] {
        let error = with_file("serve", name, text, "").unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error:?} does not say {expected:?}");
    }
}

#[test]
fn a_missing_file_is_named() {
    refuses("orch serve --config /nonexistent/c.toml", "cannot read configuration file /nonexistent/c.toml");
}

#[test]
fn settings_of_a_file_become_arguments() {
    use clap::CommandFactory;
    let mut root = Cli::command();
    root.build();
    let command = root.find_subcommand("dev").unwrap();
    let found = file::settings(Path::new("c.yaml"), "v: 2\nbrand: orch", command).unwrap();
    let found: Vec<String> = found.iter().map(file::Setting::argument).collect();
    assert_eq!(found, ["--v=2", "--brand=orch"]);
}

#[test]
fn configuration_files_take_anything() {
    use clap::CommandFactory;
    use proptest::prelude::*;

    const TEXTS: [(&str, &str); 3] = [
        ("c.toml", "data-dir = \"/d\"\nsecure-port = 6443\ninitial-cluster = [\"a=h:1\", \"b=h:2\"]\n"),
        ("c.yaml", "data-dir: /d\nsecure-port: 6443\ninitial-cluster:\n- a=h:1\n- &b b=h:2\n- *b\n"),
        ("c.json", r#"{"data-dir":"/d","secure-port":6443,"initial-cluster":["a=h:1"]}"#),
    ];
    const PIECES: [&str; 15] = [
        "[",
        "]",
        "{",
        "}",
        "\"",
        ": ",
        "\n- ",
        "= ",
        "&a ",
        "*a ",
        "!!binary ",
        "1e999",
        "\u{0}",
        "\t",
        "[[x]]\n",
    ];
    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    for (name, text) in TEXTS {
        assert!(!file::settings(Path::new(name), text, serve).unwrap().is_empty(), "{name}");
    }
    let edits = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::sample::select(&PIECES[..]), 0..6_usize),
        0..6,
    );
    let config = ProptestConfig { cases: 8_192, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((name, text) in prop::sample::select(&TEXTS[..]), edits in edits)| {
        let mut text: Vec<char> = text.chars().collect();
        for (at, piece, removed) in edits {
            let at = at.index(text.len() + 1);
            text.splice(at..(at + removed).min(text.len()), piece.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(settings) = file::settings(Path::new(name), &text, serve) {
            prop_assert!(settings.iter().all(|setting| setting.argument().starts_with("--")));
        }
    });
}
