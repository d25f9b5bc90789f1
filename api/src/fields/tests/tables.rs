//! A tiny notation for type tables, enough for the kinds of the recorded scenarios.

use super::*;

/// One line a type: `Name: field=TYPE field=TYPE`. TYPE is `s` string, `i` integer, `b` bool, `t` time, `?` anything,
/// `@T` object, `[TYPE]` atomic list, `{TYPE}` map, `set`, `<T,key,key>` keyed list; `!` is written when empty, `~x`
/// has the default x; `*` after the name: atomic; a field `_` is inlined. `^key` merges by key in strategic patches,
/// `^` as a set, `^^` replaces a map, `^~` retains keys.
const TABLES: &str = r"
OwnerReference*: apiVersion=s! kind=s! name=s! uid=s! controller=b blockOwnerDeletion=b
ObjectMeta: name=s generateName=s namespace=s uid=s resourceVersion=s generation=i creationTimestamp=t deletionTimestamp=t deletionGracePeriodSeconds=i labels={s} annotations={s} ownerReferences=<OwnerReference,uid>^uid finalizers=set^ managedFields=[?]
ConfigMap: apiVersion=s kind=s metadata=@ObjectMeta! data={s} binaryData={s} immutable=b
PolicyRule: verbs=[s]! apiGroups=[s] resources=[s] resourceNames=[s] nonResourceURLs=[s]
Role: apiVersion=s kind=s metadata=@ObjectMeta! rules=[@PolicyRule]!
LabelSelector*: matchLabels={s}
ContainerPort: name=s hostPort=i containerPort=i! protocol=s~TCP
EnvVar: name=s! value=s valueFrom=@EnvSource
FieldRef*: apiVersion=s fieldPath=s!
EnvSource: fieldRef=@FieldRef
HttpGet: path=s port=q! host=s scheme=s
Probe: httpGet=@HttpGet initialDelaySeconds=i timeoutSeconds=i periodSeconds=i successThreshold=i failureThreshold=i
ResourceRequirements: limits={q} requests={q}
VolumeMount: name=s! mountPath=s! readOnly=b
Container: name=s! image=s command=[s] args=[s] ports=<ContainerPort,containerPort,protocol>^containerPort env=<EnvVar,name>^name resources=@ResourceRequirements! volumeMounts=<VolumeMount,mountPath>^mountPath livenessProbe=@Probe terminationMessagePath=s terminationMessagePolicy=s imagePullPolicy=s
HostPath: path=s! type=s
VolumeSource: hostPath=@HostPath emptyDir=@EmptyDir secret=@SecretSource
EmptyDir: medium=s
SecretSource: secretName=s defaultMode=i
Volume: name=s! _=@VolumeSource
Toleration: key=s operator=s effect=s
HostAlias: ip=s! hostnames=[s]
PodSecurityContext: runAsUser=i
PodSpec: volumes=<Volume,name>^name^~ containers=<Container,name>!^name initContainers=<Container,name>^name restartPolicy=s terminationGracePeriodSeconds=i activeDeadlineSeconds=i dnsPolicy=s nodeSelector={s} securityContext=@PodSecurityContext schedulerName=s tolerations=[@Toleration] hostAliases=<HostAlias,ip>^ip nodeName=s priority=i priorityClassName=s enableServiceLinks=b preemptionPolicy=s
PodTemplate: metadata=@ObjectMeta! spec=@PodSpec!
PodCondition: type=s! status=s! lastProbeTime=t! lastTransitionTime=t! reason=s message=s observedGeneration=i
PodStatus: phase=s conditions=<PodCondition,type>^type podIP=s qosClass=s startTime=t message=s reason=s nominatedNodeName=s observedGeneration=i
Pod: apiVersion=s kind=s metadata=@ObjectMeta! spec=@PodSpec! status=@PodStatus!
RollingUpdate: maxUnavailable=q maxSurge=q
Strategy: type=s rollingUpdate=@RollingUpdate
DeploymentSpec: replicas=i selector=@LabelSelector! template=@PodTemplate! strategy=@Strategy!^~ minReadySeconds=i revisionHistoryLimit=i paused=b progressDeadlineSeconds=i
DeploymentStatus: replicas=i
Deployment: apiVersion=s kind=s metadata=@ObjectMeta! spec=@DeploymentSpec! status=@DeploymentStatus!
Anything: apiVersion=s kind=s metadata=@ObjectMeta! data=? list=[s]
";

/// The tables above.
pub(crate) fn schema() -> Schema {
    let lines: Vec<(&str, &str)> = TABLES.lines().filter_map(|line| line.split_once(": ")).collect();
    let names: HashMap<&str, TypeId> = lines
        .iter()
        .enumerate()
        .map(|(at, (name, _))| (name.trim_end_matches('*'), TypeId(u32::try_from(at).unwrap())))
        .collect();
    let types = lines.iter().map(|(name, fields)| object_type(name, fields, &names)).collect();
    Schema::new(types)
}

fn object_type(name: &str, fields: &str, names: &HashMap<&str, TypeId>) -> ObjectType {
    let fields = fields.split(' ').map(|text| field(text, names)).collect();
    let mut table = ObjectType::new(name.trim_end_matches('*'), fields);
    table.atomic = name.ends_with('*');
    table
}

fn field(text: &str, names: &HashMap<&str, TypeId>) -> Field {
    let (name, rest) = text.split_once('=').unwrap();
    let at = rest.find(['!', '~', '^']).unwrap_or(rest.len());
    let (value, flags) = rest.split_at(at);
    let (flags, patch) = match flags.find('^') {
        Some(at) => flags.split_at(at),
        None => (flags, ""),
    };
    let retain_keys = patch.ends_with("^~");
    let directive = patch.trim_end_matches("^~");
    let mut field = Field::new(name.trim_matches('_'), 1, value_type(value, names));
    field.default = flags.split_once('~').map(|(_, default)| Value::from(default));
    field.emit_empty = flags.contains('!');
    field.patch = PatchStrategy {
        merge: directive.starts_with('^') && directive != "^^",
        replace: directive == "^^",
        retain_keys,
        merge_key: Some(directive.trim_start_matches('^')).filter(|key| !key.is_empty()).map(Box::from),
    };
    field
}

fn value_type(text: &str, names: &HashMap<&str, TypeId>) -> ValueType {
    let inner = |text: &str| Box::new(value_type(text, names));
    let body = || &text[1..text.len() - 1];
    match text.as_bytes()[0] {
        b's' if text == "set" => ValueType::List { item: inner("s"), topology: ListTopology::Set },
        b's' => ValueType::Scalar(Scalar::String(None)),
        b'i' => ValueType::Scalar(Scalar::Int64),
        b'b' => ValueType::Scalar(Scalar::Bool),
        b't' => ValueType::Scalar(Scalar::Time),
        b'q' => ValueType::Scalar(Scalar::Quantity),
        b'?' => ValueType::Untyped,
        b'@' => ValueType::Object(names[&text[1..]]),
        b'[' => ValueType::List { item: inner(body()), topology: ListTopology::Atomic },
        b'{' => ValueType::Map { value: inner(body()), atomic: false },
        b'<' => {
            let mut parts = body().split(',');
            let item = Box::new(ValueType::Object(names[parts.next().unwrap()]));
            ValueType::List { item, topology: ListTopology::Map(parts.map(Box::from).collect()) }
        }
        other => panic!("no such type: {}", char::from(other)),
    }
}
