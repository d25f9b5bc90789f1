//! Compiles a message's `resource` option into a resource definition.
//!
//! Owns the option's defaults: the usual verbs, the descriptions that all kinds share, the brand's domains.

use orch_proto::{Brand, options};
use prost_reflect::MessageDescriptor;

use super::compile::{CompileError, Compiler};
use super::resource::{
    Column, DefaultPropagation, NameRule, ResourceType, Rules, ScalePaths, Selectable, Subresource,
};

/// The verbs of a resource whose option names none.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Message of the documents of the sub-resource `scale`.
const SCALE: &str = "autoscaling.v1.Scale";

/// The description of a column that gives `{name}` for it.
const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although \
    some resources may allow a client to request the generation of an appropriate name automatically. Name is \
    primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://{label_domain}/docs/concepts/overview/working-with-objects/names#names";

/// The description of a column that gives `{age}` for it.
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
    created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set \
    this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for \
    lists. More info: \
    https://git.{group_domain}/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The definition of the resource whose objects are `message`.
pub(super) fn resource(
    compiler: &Compiler,
    message: &MessageDescriptor,
    options: options::Resource,
) -> Result<ResourceType, CompileError> {
    let (group, version) = group_version(compiler, message);
    let subresources = options.subresources.iter().map(|options| subresource(compiler, message, options));
    let subresources = subresources.collect::<Result<_, _>>()?;
    Ok(ResourceType {
        group,
        version,
        plural: options.plural().to_owned(),
        singular: options.singular().to_owned(),
        kind: message.name().into(),
        list_kind: format!("{}List", message.name()),
        namespaced: options.namespaced.unwrap_or_default(),
        verbs: if options.verbs.is_empty() { VERBS.map(Into::into).into() } else { options.verbs },
        short_names: options.short_names,
        categories: options.categories,
        subresources,
        columns: options.columns.iter().map(|options| column(options, compiler.brand)).collect(),
        type_id: compiler.id(message.full_name())?,
        rules: options.rules.map(rules).unwrap_or_default(),
    })
}

fn rules(options: options::Rules) -> Rules {
    Rules {
        names: match options.names() {
            options::Names::Dns1123Subdomain => NameRule::Dns1123Subdomain,
            options::Names::Dns1123Label => NameRule::Dns1123Label,
            options::Names::Dns1035Label => NameRule::Dns1035Label,
            options::Names::PathSegment => NameRule::PathSegment,
        },
        create_on_update: options.create_on_update(),
        conditional_update: options.conditional_update(),
        confidential: options.confidential(),
        returns_deleted: options.returns_deleted(),
        propagation: match options.propagation() {
            options::Propagation::Delete => DefaultPropagation::Delete,
            options::Propagation::Orphan => DefaultPropagation::Orphan,
            options::Propagation::Unsupported => DefaultPropagation::Unsupported,
        },
        has_kind_specific_deletion: options.has_kind_specific_deletion(),
        selectable: options.selectable.iter().map(selectable).collect(),
        status_resets: options.status_resets,
        object_resets: options.object_resets,
    }
}

fn selectable(options: &options::Selectable) -> Selectable {
    let synonym = options.synonym.clone();
    let (withheld, unindexed, coarse) = (options.withheld(), options.unindexed(), options.coarse());
    Selectable { name: options.name().into(), withheld, unindexed, coarse, synonym }
}

fn subresource(
    compiler: &Compiler,
    parent: &MessageDescriptor,
    options: &options::Subresource,
) -> Result<Subresource, CompileError> {
    let full_name = match options.kind() {
        "" => parent.full_name().to_owned(),
        kind if kind.contains('.') => kind.to_owned(),
        kind => format!("{}.{kind}", parent.package_name()),
    };
    let type_id = compiler.id(&full_name)?;
    let message = parent.parent_pool().get_message_by_name(&full_name);
    let message = message.as_ref().unwrap_or(parent);
    let (group, version) = group_version(compiler, message);
    let kind = message.name().into();
    let is_scale = full_name == SCALE;
    Ok(Subresource {
        scale: is_scale.then(|| scale_paths(options.scale.as_ref())),
        name: options.name().into(),
        group,
        version,
        kind,
        type_id,
        verbs: options.verbs.clone(),
        resets: options.resets.clone(),
    })
}

/// The paths of `options`, or those that every built-in kind has.
fn scale_paths(options: Option<&options::ScalePaths>) -> ScalePaths {
    let steps = |path: Option<&str>, usual: &str| {
        let path = path.filter(|path| !path.is_empty()).unwrap_or(usual);
        path.split('.').map(str::to_owned).collect()
    };
    ScalePaths {
        spec_replicas: steps(options.map(options::ScalePaths::spec_replicas), "spec.replicas"),
        status_replicas: steps(options.map(options::ScalePaths::status_replicas), "status.replicas"),
        selector: steps(options.map(options::ScalePaths::selector), "spec.selector"),
    }
}

/// Group and version of the file that declares `message`. A branded group is under the brand's domain.
fn group_version(compiler: &Compiler, message: &MessageDescriptor) -> (String, String) {
    let api = compiler.api(&message.parent_file());
    let group = if api.branded() { compiler.brand.group(api.group()) } else { api.group().to_owned() };
    (group, api.version().to_owned())
}

/// The two columns of a kind whose option names none.
pub fn default_columns(brand: &Brand) -> [Column; 2] {
    let column = |name: &str, kind: &str, format: &str, description: &str| Column {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: described(description, brand),
        priority: 0,
        path: String::new(),
    };
    [column("Name", "string", "name", "{name}"), column("Created At", "date", "", "{age}")]
}

fn column(options: &options::Column, brand: &Brand) -> Column {
    Column {
        name: options.name().into(),
        kind: options.r#type().into(),
        format: options.format().into(),
        description: described(options.description(), brand),
        priority: options.priority(),
        path: String::new(),
    }
}

/// A column's description with its placeholders filled in.
fn described(description: &str, brand: &Brand) -> String {
    let description = match description {
        "{name}" => NAME_DESCRIPTION,
        "{age}" => AGE_DESCRIPTION,
        other => other,
    };
    description.replace("{label_domain}", brand.label_domain).replace("{group_domain}", brand.group_domain)
}
