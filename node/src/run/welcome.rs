//! What a started node prints: where it listens and what to type next.

use std::fmt::Write;

use orch_proto::Brand;

use super::dev;
use super::endpoints::Endpoints;
use super::plan::{Kind, Plan};

/// The text of a node that is ready.
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
    writeln!(text, "member {} serves {} (peers: {})", plan.name, endpoints.https, endpoints.peer)
}

fn write_dev(text: &mut String, plan: &Plan, endpoints: &Endpoints, brand: &Brand) -> std::fmt::Result {
    let config = dev::admin_config(&plan.data_dir);
    let group = brand.group("rbac.authorization");
    writeln!(text, "\nReady. Data in {}\n", plan.data_dir.display())?;
    writeln!(text, "  HTTPS  {}   who you are: your certificate or token", endpoints.https)?;
    if let Some(http) = &endpoints.http {
        writeln!(text, "  HTTP   {http}    everybody here is the administrator; this machine only")?;
    }
    writeln!(text, "  Peers  {}\n\nNext:\n", endpoints.peer)?;
    if let Some(http) = &endpoints.http {
        writeln!(text, "  curl {http}/readyz?verbose")?;
        writeln!(text, "  curl {http}/apis/{group}/v1/roles")?;
    }
    writeln!(text, "  kubectl --kubeconfig {} get namespaces", config.display())?;
    if brand.name != orch_proto::brand::KUBERNETES.name {
        writeln!(text, "      (for kubectl start with --brand kubernetes, on a data directory of its own)")?;
    }
    writeln!(text, "\nStop with Ctrl-C.")
}
