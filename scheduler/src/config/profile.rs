//! Profiles: which plugins run at which extension point, with which weights and arguments.
//!
//! Owns the way from a profile of the file to the plugins in force: the explicit sets of extension points, the expansion
//! of `multiPoint`, and the checks that a scheduler can work with the result. It runs no plugin; the planner does.

use std::collections::BTreeMap;

use orch_proto::Brand;

use crate::plugin::{self, ExtensionPoint};
use ExtensionPoint::{
    Bind, Filter, Permit, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve,
    Score,
};

use super::arguments::PluginArgs;
use super::types::{FilePluginConfig, FileProfile, Plugin, PluginSet, PluginSets};
use super::validate::fit_args_faults;
use super::wire::Raw;

/// The plugins of an extension point in `sets`.
fn set_of(point: ExtensionPoint, sets: &PluginSets) -> &PluginSet {
    match point {
        PreFilter => &sets.pre_filter,
        Filter => &sets.filter,
        PostFilter => &sets.post_filter,
        Reserve => &sets.reserve,
        PreScore => &sets.pre_score,
        Score => &sets.score,
        PreBind => &sets.pre_bind,
        Bind => &sets.bind,
        PostBind => &sets.post_bind,
        Permit => &sets.permit,
        PreEnqueue => &sets.pre_enqueue,
        QueueSort => &sets.queue_sort,
    }
}

/// Most that a node can score at one plugin; weights multiply it.
const NODE_SCORE_MAX: i64 = 100;

/// The arguments of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// The plugin's name.
    pub name: String,
    /// Its arguments, with defaults.
    pub args: PluginArgs,
}

/// A profile in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Scheduler name of the pods it is for.
    pub scheduler_name: String,
    /// Percentage of the nodes that are scored; `None` for the configuration's.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The names of the plugins at each extension point, in the order in which they run.
    pub plugins: BTreeMap<ExtensionPoint, Vec<String>>,
    /// Weights of the plugins that score.
    pub weights: BTreeMap<String, i32>,
    /// Arguments of the enabled plugins that have some, in order of names.
    pub plugin_config: Vec<PluginConfig>,
    /// The sets as the file gave them, with defaults: what `--write-config-to` writes.
    sets: PluginSets,
}

/// A profile after defaults and before its plugins are set up.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) scheduler_name: String,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) sets: PluginSets,
    pub(super) plugin_config: Vec<PluginConfig>,
}

impl Draft {
    /// Sets the plugins up. The error says which rule of profiles is broken.
    pub(super) fn build(self) -> Result<Profile, String> {
        let name = self.scheduler_name.clone();
        self.set_up().map_err(|fault| {
            format!("initializing profiles: creating profile for scheduler name {name}: {fault}")
        })
    }

    fn set_up(self) -> Result<Profile, String> {
        self.check_args()?;
        let mut plugins = BTreeMap::new();
        for point in ExtensionPoint::ALL {
            check_explicit(point, set_of(point, &self.sets))?;
        }
        for point in ExtensionPoint::ALL {
            plugins.insert(point, expanded(point, set_of(point, &self.sets), &self.sets.multi_point)?);
        }
        let count = |point: ExtensionPoint| plugins.get(&point).map_or(0, Vec::len);
        let name = &self.scheduler_name;
        if count(QueueSort) != 1 {
            return Err(format!(
                "only one queue sort plugin required for profile with scheduler name {name:?}, but got {}",
                count(QueueSort)
            ));
        }
        if count(Bind) == 0 {
            return Err(format!(
                "at least one bind plugin is needed for profile with scheduler name {name:?}"
            ));
        }
        let weights = weights(&self.sets)?;
        let is_enabled = |name: &str| plugins.values().any(|names| names.iter().any(|known| known == name));
        let mut plugin_config = self.plugin_config;
        plugin_config.retain(|config| registered(&config.name).is_some() && is_enabled(&config.name));
        plugin_config.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Profile {
            scheduler_name: self.scheduler_name,
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            plugins,
            weights,
            plugin_config,
            sets: self.sets,
        })
    }

    /// Checks the arguments that the reference checks when it makes a plugin, and not when it reads the file.
    fn check_args(&self) -> Result<(), String> {
        for config in &self.plugin_config {
            if let PluginArgs::NodeResourcesFit(args) = &config.args {
                fit_args_faults(args)
                    .result()
                    .map_err(|fault| format!("initializing plugin {:?}: {fault}", config.name))?;
            }
        }
        Ok(())
    }
}

impl Profile {
    /// The plugins at `point`, in the order in which they run.
    pub fn at(&self, point: ExtensionPoint) -> &[String] {
        self.plugins.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The profile as a configuration file has it.
    pub(super) fn to_file(&self, brand: &Brand) -> FileProfile {
        let plugin_config = self.plugin_config.iter().map(|config| FilePluginConfig {
            name: config.name.clone(),
            args: Raw(config.args.encode(&config.name, brand)),
        });
        FileProfile {
            scheduler_name: Some(self.scheduler_name.clone()),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            plugins: Some(self.sets.clone()),
            plugin_config: plugin_config.collect(),
        }
    }
}

fn registered(name: &str) -> Option<&'static [ExtensionPoint]> {
    plugin::Plugin::named(name).map(plugin::Plugin::points)
}

/// Checks the plugins that a file enables at one extension point.
fn check_explicit(point: ExtensionPoint, set: &PluginSet) -> Result<(), String> {
    for (at, plugin) in set.enabled.iter().enumerate() {
        let name = &plugin.name;
        let points = registered(name).ok_or_else(|| format!("{point:?}Plugin {name:?} does not exist"))?;
        if !points.contains(&point) {
            return Err(format!("plugin {name:?} does not extend {point:?}Plugin plugin"));
        }
        if set.enabled[..at].iter().any(|earlier| earlier.name == *name) {
            return Err(already_registered(name, point));
        }
    }
    Ok(())
}

fn already_registered(name: &str, point: ExtensionPoint) -> String {
    format!("plugin {name:?} already registered as \"{point:?}Plugin\"")
}

/// The plugins that run at `point`: explicit ones that override `multi_point`, then the rest of `multi_point`, then the
/// rest of the explicit ones.
fn expanded(point: ExtensionPoint, set: &PluginSet, multi_point: &PluginSet) -> Result<Vec<String>, String> {
    let explicit: Vec<&String> = set.enabled.iter().map(|plugin| &plugin.name).collect();
    let is_disabled = |name: &str| set.disabled.iter().any(|plugin| plugin.name == name);
    if is_disabled("*") {
        return Ok(explicit.into_iter().cloned().collect());
    }
    let (mut overriding, mut others) = (Vec::new(), Vec::new());
    for Plugin { name, .. } in &multi_point.enabled {
        let points = registered(name).ok_or_else(|| format!("{point:?}Plugin {name:?} does not exist"))?;
        if !points.contains(&point) || is_disabled(name) {
            continue;
        }
        if explicit.contains(&name) {
            overriding.push(name);
        } else if others.contains(name) {
            return Err(already_registered(name, point));
        } else {
            others.push(name.clone());
        }
    }
    let first = explicit.iter().filter(|name| overriding.contains(name)).map(|name| (*name).clone());
    let mut names: Vec<String> = first.collect();
    names.extend(others);
    names.extend(explicit.iter().filter(|name| !overriding.contains(name)).map(|name| (*name).clone()));
    Ok(names)
}

/// Weights of the plugins that score: those of `score`, then those of `multiPoint`; none counts as 1.
fn weights(sets: &PluginSets) -> Result<BTreeMap<String, i32>, String> {
    let mut weights = BTreeMap::new();
    let mut total = 0_i64;
    for plugin in sets.score.enabled.iter().chain(&sets.multi_point.enabled) {
        let scores = registered(&plugin.name).is_some_and(|points| points.contains(&Score));
        if !scores || weights.contains_key(&plugin.name) {
            continue;
        }
        let weight = plugin.weight.filter(|weight| *weight != 0).unwrap_or(1);
        total = i64::from(weight)
            .checked_mul(NODE_SCORE_MAX)
            .and_then(|score| total.checked_add(score))
            .ok_or("total score of Score plugins could overflow")?;
        weights.insert(plugin.name.clone(), weight);
    }
    Ok(weights)
}
