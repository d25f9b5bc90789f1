//! The text that a started node prints: its addresses and the next commands to type.

use std::fmt::Write;

use orch_proto::Brand;

use super::dev;
use super::endpoints::Endpoints;
use super::plan::{Kind, Plan, host_port};
use super::scheduler::Scheduler;
use crate::certs::Client;

/// The text of a node that serves.
pub(super) fn text(plan: &Plan, endpoints: &Endpoints, brand: &Brand) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match plan.kind {
        Kind::Serve => write_serve(&mut text, plan, endpoints),
        Kind::Dev { .. } => write_dev(&mut text, plan, endpoints, brand),
    };
    text
}

fn write_serve(text: &mut String, plan: &Plan, endpoints: &Endpoints) -> std::fmt::Result {
    let peers = endpoints.peer.as_deref().unwrap_or("none");
    let url = format!("https://{}", host_port(&plan.advertise, endpoints.secure.port()));
    writeln!(text, "member {} serves {url}, listening on {} (peers: {peers})", plan.name, endpoints.secure)
}

fn write_dev(text: &mut String, plan: &Plan, endpoints: &Endpoints, brand: &Brand) -> std::fmt::Result {
    let config = dev::client_config(&plan.data_dir, Client::Admin);
    let group = brand.group("rbac.authorization");
    writeln!(text, "\nReady. Data in {}\n", plan.data_dir.display())?;
    let Kind::Dev { socket, scheduler, .. } = &plan.kind else { return Ok(()) };
    let socket = quoted(&socket.display().to_string());
    let doors = [
        ("HTTPS", Some(&endpoints.https), "who you are: your certificate or token"),
        ("Socket", Some(&socket), "the administrator: you alone may open it"),
        ("HTTP", endpoints.http.as_ref(), "the administrator: every program of this machine may use it"),
        ("Peers", endpoints.peer.as_ref(), "other members"),
    ];
    write_doors(text, &doors)?;
    if let Scheduler::Missing(path) = scheduler {
        writeln!(
            text,
            "\nNo scheduler: there is no {}. Pods wait for one (`make build` makes it).",
            path.display()
        )?;
    }
    writeln!(text, "\nNext:\n")?;
    writeln!(text, "  curl --unix-socket {socket} 'http://orch/readyz?verbose'")?;
    writeln!(text, "  curl --unix-socket {socket} http://orch/apis/{group}/v1/roles")?;
    if brand.name == orch_proto::brand::KUBERNETES.name {
        writeln!(text, "  kubectl --kubeconfig {} get namespaces", quoted(&config.display().to_string()))?;
    } else {
        writeln!(
            text,
            "\nkubectl knows these names by halves: for it, start with --brand kubernetes and another --data-dir."
        )?;
    }
    writeln!(
        text,
        "\nNothing here runs containers or makes pods of a Deployment: `orch --help` says what this is not."
    )?;
    writeln!(text, "\nStop with Ctrl-C.")
}

/// The open ones of `doors`, each a name, an address and who comes in, in columns.
fn write_doors(text: &mut String, doors: &[(&str, Option<&String>, &str)]) -> std::fmt::Result {
    let open = || doors.iter().filter_map(|(name, address, user)| Some((name, (*address)?, user)));
    let width = open().map(|(_, address, _)| address.chars().count()).max().unwrap_or_default();
    for (name, address, user) in open() {
        writeln!(text, "  {name:<6} {address:<width$}   {user}")?;
    }
    Ok(())
}

/// Quotes `text` as one shell word.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_columns_however_long_their_addresses_are() {
        let (short, long) = ("https://h:1".to_owned(), "/a/long/path/to/orch.sock".to_owned());
        let mut text = String::new();
        write_doors(
            &mut text,
            &[("HTTPS", Some(&short), "you"), ("HTTP", None, "all"), ("Socket", Some(&long), "root")],
        )
        .unwrap();
        let expected =
            "  HTTPS  https://h:1                 you\n  Socket /a/long/path/to/orch.sock   root\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_path_can_be_copied_into_a_shell() {
        assert_eq!(quoted("./orch-data/orch.sock"), "./orch-data/orch.sock");
        assert_eq!(quoted("/my data/orch.sock"), "'/my data/orch.sock'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
