//! The operation of a request on the objects that its path names.
//!
//! Owns the actions and their names in paths. Behind the endpoint no code compares the names of sub-resources.

/// Operation of a request on the objects that its path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads or writes the object itself; its status stays as it is.
    Object,
    /// Reads the object, or writes its status.
    Status,
    /// Writes the finalizers of a namespace's spec.
    Finalize,
    /// Makes a token of a service account. Nothing is stored.
    Token,
    /// Writes the conditions that approve or deny a request for a certificate.
    Approval,
    /// Reads or writes the number of replicas, as a document of its own.
    Scale,
    /// Assigns a pod to a node.
    Binding,
    /// Deletes a pod if its disruption budget allows that.
    Eviction,
    /// Reads a pod, or adds ephemeral containers to it.
    EphemeralContainers,
    /// Reads a pod, or changes the resources of its containers.
    Resize,
    /// Reads the log of a container from the kubelet of its node.
    Log,
    /// Runs a command in a container, through its kubelet.
    Exec,
    /// Attaches to the process of a container, through its kubelet.
    Attach,
    /// Carries connections to ports of a pod, through its kubelet.
    PortForward,
    /// Passes the request on to a pod, a service or a kubelet.
    Proxy,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 15] = [
        Action::Object,
        Action::Status,
        Action::Finalize,
        Action::Token,
        Action::Approval,
        Action::Scale,
        Action::Binding,
        Action::Eviction,
        Action::EphemeralContainers,
        Action::Resize,
        Action::Log,
        Action::Exec,
        Action::Attach,
        Action::PortForward,
        Action::Proxy,
    ];

    /// The name of the sub-resource in a path and in managed fields; empty for the object itself.
    pub fn subresource(self) -> &'static str {
        match self {
            Action::Object => "",
            Action::Status => "status",
            Action::Finalize => "finalize",
            Action::Token => "token",
            Action::Approval => "approval",
            Action::Scale => "scale",
            Action::Binding => "binding",
            Action::Eviction => "eviction",
            Action::EphemeralContainers => "ephemeralcontainers",
            Action::Resize => "resize",
            Action::Log => "log",
            Action::Exec => "exec",
            Action::Attach => "attach",
            Action::PortForward => "portforward",
            Action::Proxy => "proxy",
        }
    }

    /// Whether the action changes the resources of a pod's containers.
    pub fn is_resize(self) -> bool {
        self == Action::Resize
    }

    /// Whether another server answers the request: nothing is stored, and the answer may last.
    pub fn is_passed_on(self) -> bool {
        matches!(self, Action::Log | Action::Exec | Action::Attach | Action::PortForward | Action::Proxy)
    }

    /// The action of the sub-resource called `name`; empty for the object itself. `None`: it is not served.
    pub fn of(name: &str) -> Option<Action> {
        // few: the actions.
        Action::ALL.into_iter().find(|action| action.subresource() == name)
    }
}
