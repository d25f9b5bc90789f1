//! The product's names in the interface, in one table.
//!
//! Owns every string of the interface that carries the brand: group domains, label domain, media type, OpenAPI prefix,
//! namespaces and well-known names. No other file spells one. The brand of a cluster is chosen at its founding and kept
//! in its state.

/// The names of one brand. Chosen with `--brand` when a cluster is founded; the same on all its nodes.
#[derive(Debug, PartialEq, Eq)]
pub struct Brand {
    /// The value of `--brand`: `orch` or `kubernetes`.
    pub name: &'static str,
    /// The product's name in sentences.
    pub product: &'static str,
    /// Domain of the built-in API groups: `rbac.authorization.` + this.
    pub group_domain: &'static str,
    /// Domain of well-known labels, annotations and finalizers.
    pub label_domain: &'static str,
    /// Media type of the Protobuf representation.
    pub protobuf_media_type: &'static str,
    /// Prefix of the names of the system's components: `orch` in `orch-aggregator`.
    pub component_prefix: &'static str,
    /// Prefix of the schema extensions in OpenAPI documents, for example `x-kubernetes-list-type`.
    pub extension_prefix: &'static str,
    /// Namespace of the system's own objects.
    pub system_namespace: &'static str,
    /// Namespace whose objects all users may read.
    pub public_namespace: &'static str,
    /// Namespace of the leases that are the nodes' heartbeats.
    pub node_lease_namespace: &'static str,
    /// The finalizer that keeps a namespace until its content is gone.
    pub namespace_finalizer: &'static str,
    /// Name of the service through which the API is reached inside the cluster.
    pub api_service: &'static str,
    /// Name of the default scheduler.
    pub scheduler_name: &'static str,
    /// Issuer of the tokens of service accounts that are kept in secrets.
    pub secret_token_issuer: &'static str,
}

/// Field manager of what the server writes itself, under every brand: the reference's.
pub const SERVER_MANAGER: &str = "kube-apiserver";

/// The audience of the server, for which its tokens are meant: the reference's default, under every brand.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc";

/// Where the approval of definitions in protected groups is explained: the reference's text, under every brand.
pub const APPROVAL_EXPLAINED: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// The component that registers groups of the API, in its label: the reference's name, under every brand.
const AGGREGATOR: &str = "kube-aggregator";

/// The default brand of a new cluster.
pub static ORCH: Brand = Brand {
    name: "orch",
    product: "Orch",
    group_domain: "orch.io",
    label_domain: "orch.io",
    protobuf_media_type: "application/vnd.orch.protobuf",
    component_prefix: "orch",
    extension_prefix: "x-orch-",
    system_namespace: "orch-system",
    public_namespace: "orch-public",
    node_lease_namespace: "orch-node-lease",
    namespace_finalizer: "orch",
    api_service: "orch",
    scheduler_name: "default-scheduler",
    secret_token_issuer: "orch/serviceaccount",
};

/// The brand for unmodified Kubernetes clients.
pub static KUBERNETES: Brand = Brand {
    name: "kubernetes",
    product: "Kubernetes",
    group_domain: "k8s.io",
    label_domain: "kubernetes.io",
    protobuf_media_type: "application/vnd.kubernetes.protobuf",
    component_prefix: "kube",
    extension_prefix: "x-kubernetes-",
    system_namespace: "kube-system",
    public_namespace: "kube-public",
    node_lease_namespace: "kube-node-lease",
    namespace_finalizer: "kubernetes",
    api_service: "kubernetes",
    scheduler_name: "default-scheduler",
    secret_token_issuer: "kubernetes/serviceaccount",
};

impl Brand {
    /// The brand called `name`; `None` if there is no such brand.
    pub fn named(name: &str) -> Option<&'static Brand> {
        [&ORCH, &KUBERNETES].into_iter().find(|brand| brand.name == name)
    }

    /// The full name of a built-in group: `rbac.authorization` becomes `rbac.authorization.orch.io`. Not for groups
    /// without a domain (core, `apps`, `policy`, `batch`, `autoscaling`).
    pub fn group(&self, stem: &str) -> String {
        format!("{stem}.{}", self.group_domain)
    }

    /// A well-known label or annotation: `metadata.name` becomes `orch.io/metadata.name`.
    pub fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.label_domain)
    }

    /// The label of objects that register a group and version and that the server manages.
    pub fn automanaged_label(&self) -> String {
        format!("{AGGREGATOR}.{}/automanaged", self.label_domain)
    }
}
