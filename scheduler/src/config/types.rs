//! The configuration file's structs, as they stand in version `v1` of the group `orchscheduler.config`.
//!
//! Owns names, types and which fields may be absent. Defaults are in [`super::defaults`], rules in
//! [`super::validate`]; arguments of plugins in [`super::arguments`].

use orch_schema::SignedDuration;

use super::wire::{Bytes, Raw, wire};

wire! {
    /// The configuration file.
    pub struct FileConfiguration = "v1.{Brand}SchedulerConfiguration" {
        /// Group and version.
        api_version: String = "apiVersion", keep;
        /// Kind.
        kind: String = "kind", keep;
        /// Most nodes that are looked at beside each other.
        parallelism: Option<i32> = "parallelism";
        /// Leader election.
        leader_election: LeaderElection = "leaderElection", keep;
        /// The connection to the API server.
        client_connection: ClientConnection = "clientConnection", keep;
        /// Whether profiles are served.
        enable_profiling: Option<bool> = "enableProfiling";
        /// Whether waits for locks are profiled, where profiles are served.
        enable_contention_profiling: Option<bool> = "enableContentionProfiling";
        /// Percentage of the nodes that are scored; 0 for all, or what the size of the cluster suggests.
        percentage_of_nodes_to_score: Option<i32> = "percentageOfNodesToScore";
        /// Seconds until an unschedulable pod is first tried again.
        pod_initial_backoff_seconds: Option<i64> = "podInitialBackoffSeconds";
        /// Most seconds between two tries of a pod.
        pod_max_backoff_seconds: Option<i64> = "podMaxBackoffSeconds";
        /// Profiles, of which a pod chooses one by its scheduler name.
        profiles: Vec<FileProfile> = "profiles";
        /// Servers that take part in scheduling.
        extenders: Vec<Extender> = "extenders";
        /// Whether a standby waits with its caches until it leads.
        delay_cache_until_active: bool = "delayCacheUntilActive";
    }
}

wire! {
    /// Leader election.
    pub struct LeaderElection = "v1alpha1.LeaderElectionConfiguration" {
        /// Whether only the leader schedules.
        leader_elect: Option<bool> = "leaderElect", keep;
        /// How long others wait after the last renewal.
        lease_duration: SignedDuration = "leaseDuration", keep;
        /// How long the leader tries to renew.
        renew_deadline: SignedDuration = "renewDeadline", keep;
        /// Time between attempts.
        retry_period: SignedDuration = "retryPeriod", keep;
        /// Kind of the lock.
        resource_lock: String = "resourceLock", keep;
        /// Name of the lock.
        resource_name: String = "resourceName", keep;
        /// Namespace of the lock.
        resource_namespace: String = "resourceNamespace", keep;
    }
}

wire! {
    /// The connection to the API server.
    pub struct ClientConnection = "v1alpha1.ClientConnectionConfiguration" {
        /// Client configuration file; empty for the cluster in which the process runs.
        client_config: String = "{brand}config", keep;
        /// Media types that are accepted; empty for the content type.
        accept_content_types: String = "acceptContentTypes", keep;
        /// Media type of requests.
        content_type: String = "contentType", keep;
        /// Requests a second, on average.
        qps: f32 = "qps", keep;
        /// Requests at once beyond that.
        burst: i32 = "burst", keep;
    }
}

wire! {
    /// A profile.
    pub struct FileProfile = "v1.{Brand}SchedulerProfile" {
        /// Scheduler name of the pods it is for.
        scheduler_name: Option<String> = "schedulerName";
        /// Percentage of the nodes that are scored; absent for the configuration's.
        percentage_of_nodes_to_score: Option<i32> = "percentageOfNodesToScore";
        /// Plugins to enable and disable.
        plugins: Option<PluginSets> = "plugins";
        /// Arguments of plugins.
        plugin_config: Vec<FilePluginConfig> = "pluginConfig";
    }
}

wire! {
    /// Plugins by extension point.
    pub struct PluginSets = "v1.Plugins" {
        /// Before a pod enters the queue.
        pre_enqueue: PluginSet = "preEnqueue";
        /// Order of the queue.
        queue_sort: PluginSet = "queueSort";
        /// Before nodes are filtered.
        pre_filter: PluginSet = "preFilter";
        /// Filters of nodes.
        filter: PluginSet = "filter";
        /// After no node was left.
        post_filter: PluginSet = "postFilter";
        /// Before nodes are scored.
        pre_score: PluginSet = "preScore";
        /// Scores of nodes.
        score: PluginSet = "score";
        /// Reservations.
        reserve: PluginSet = "reserve";
        /// Permissions, which may wait.
        permit: PluginSet = "permit";
        /// Before a pod is bound.
        pre_bind: PluginSet = "preBind";
        /// Binding.
        bind: PluginSet = "bind";
        /// After a pod was bound.
        post_bind: PluginSet = "postBind";
        /// Every extension point that a plugin has.
        multi_point: PluginSet = "multiPoint";
        /// Placements of groups of pods.
        placement_generate: PluginSet = "placementGenerate";
        /// Scores of placements.
        placement_score: PluginSet = "placementScore";
    }
}

wire! {
    /// Plugins to enable and disable at an extension point.
    pub struct PluginSet = "v1.PluginSet" {
        /// Enabled beside the default ones.
        enabled: Vec<Plugin> = "enabled";
        /// Default ones that are disabled; `*` for all.
        disabled: Vec<Plugin> = "disabled";
    }
}

wire! {
    /// A plugin with its weight.
    pub struct Plugin = "v1.Plugin" {
        /// Its name.
        name: String = "name", keep;
        /// Weight of its scores.
        weight: Option<i32> = "weight";
    }
}

wire! {
    /// Arguments of a plugin.
    pub struct FilePluginConfig = "v1.PluginConfig" {
        /// The plugin's name.
        name: String = "name", keep;
        /// The arguments.
        args: Raw = "args";
    }
}

wire! {
    /// A server that takes part in scheduling.
    pub struct Extender = "v1.Extender" {
        /// Beginning of its URLs.
        url_prefix: String = "urlPrefix", keep;
        /// Path of the filter call; empty for none.
        filter_verb: String = "filterVerb";
        /// Path of the preemption call; empty for none.
        preempt_verb: String = "preemptVerb";
        /// Path of the scoring call; empty for none.
        prioritize_verb: String = "prioritizeVerb";
        /// Weight of its scores.
        weight: i64 = "weight";
        /// Path of the binding call; empty for none.
        bind_verb: String = "bindVerb";
        /// Whether it is called over TLS.
        enable_https: bool = "enableHTTPS";
        /// TLS of those calls.
        tls_config: Option<ExtenderTls> = "tlsConfig";
        /// Longest wait for an answer.
        http_timeout: SignedDuration = "httpTimeout";
        /// Whether it needs only names of nodes.
        node_cache_capable: bool = "nodeCacheCapable";
        /// Resources for which it is asked; empty for every pod.
        managed_resources: Vec<ManagedResource> = "managedResources";
        /// Whether scheduling goes on without its answer.
        ignorable: bool = "ignorable";
    }
}

wire! {
    /// A resource that an extender manages.
    pub struct ManagedResource = "v1.ExtenderManagedResource" {
        /// Its name.
        name: String = "name", keep;
        /// Whether nodes are not filtered by it.
        ignored_by_scheduler: bool = "ignoredByScheduler";
    }
}

wire! {
    /// TLS of the calls to an extender.
    pub struct ExtenderTls = "v1.ExtenderTLSConfig" {
        /// Whether the server's certificate is not verified.
        insecure: bool = "insecure";
        /// Name in the server's certificate.
        server_name: String = "serverName";
        /// File of the client certificate.
        cert_file: String = "certFile";
        /// File of its key.
        key_file: String = "keyFile";
        /// File of the server's authorities.
        ca_file: String = "caFile";
        /// The client certificate itself.
        cert_data: Bytes = "certData";
        /// Its key itself.
        key_data: Bytes = "keyData";
        /// The authorities themselves.
        ca_data: Bytes = "caData";
    }
}

impl PluginSets {
    /// Every set but `multiPoint`, with its name in documents.
    pub(crate) fn by_point(&self) -> [(&'static str, &PluginSet); 12] {
        [
            ("preEnqueue", &self.pre_enqueue),
            ("queueSort", &self.queue_sort),
            ("preFilter", &self.pre_filter),
            ("filter", &self.filter),
            ("postFilter", &self.post_filter),
            ("preScore", &self.pre_score),
            ("score", &self.score),
            ("reserve", &self.reserve),
            ("permit", &self.permit),
            ("preBind", &self.pre_bind),
            ("bind", &self.bind),
            ("postBind", &self.post_bind),
        ]
    }

    /// Every set.
    pub(crate) fn all_mut(&mut self) -> [&mut PluginSet; 15] {
        [
            &mut self.pre_enqueue,
            &mut self.queue_sort,
            &mut self.pre_filter,
            &mut self.filter,
            &mut self.post_filter,
            &mut self.pre_score,
            &mut self.score,
            &mut self.reserve,
            &mut self.permit,
            &mut self.pre_bind,
            &mut self.bind,
            &mut self.post_bind,
            &mut self.multi_point,
            &mut self.placement_generate,
            &mut self.placement_score,
        ]
    }
}
