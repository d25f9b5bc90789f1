//! Profiles of the configuration as the planner takes them.
//!
//! Owns the translation of names: plugins are text in the configuration, which may name others, and numbers behind it.
//! Arguments are in [`super::arguments`].

use crate::config::Configuration;
use crate::config::profile;
use crate::plan;
use crate::plan::profile::{Enabled, ExtensionPoint, Plugin, Weighted};

use super::arguments::arguments;

/// The profiles as the planner takes them, in the order of the configuration.
pub(super) fn plan_profiles(configuration: &Configuration) -> Result<Vec<plan::Profile>, String> {
    let profile = |profile: &profile::Profile| {
        let all = configuration.percentage_of_nodes_to_score;
        Ok(plan::Profile {
            scheduler_name: profile.scheduler_name.clone(),
            enabled: enabled(profile)?,
            arguments: arguments(&profile.plugin_config)
                .map_err(|fault| format!("profile {}: {fault}", profile.scheduler_name))?,
            percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score.unwrap_or(all),
        })
    };
    configuration.profiles.iter().map(profile).collect()
}

/// The plugins of each extension point, in the order in which they run.
fn enabled(profile: &profile::Profile) -> Result<Enabled, String> {
    let mut enabled = Enabled::default();
    for point in ExtensionPoint::ALL {
        for name in profile.at(point) {
            let plugin = Plugin::named(name)
                .ok_or_else(|| format!("profile {}: unknown plugin {name}", profile.scheduler_name))?;
            match enabled.at(point) {
                Some(plugins) => plugins.push(plugin),
                None => {
                    let weight = profile.weights.get(name).copied().map_or(1, i64::from);
                    enabled.score.push(Weighted { plugin, weight });
                }
            }
        }
    }
    Ok(enabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::configuration;

    #[test]
    fn the_default_configuration_is_the_planners_default() {
        let configuration = configuration("");
        let profiles = plan_profiles(&configuration).unwrap();
        assert_eq!(profiles, [plan::Profile::default()]);
    }

    #[test]
    fn changes_of_a_profile_arrive() {
        let configuration = configuration(
            "percentageOfNodesToScore: 40\nprofiles:\n- schedulerName: a\n  percentageOfNodesToScore: 30\n  plugins:\n    score:\n      \
             enabled: [{name: NodeAffinity, weight: 7}]\n      disabled: [{name: \"*\"}]\n    filter: \
             {disabled: [{name: NodePorts}]}\n    multiPoint: {disabled: [{name: DefaultPreemption}]}\n\
             - schedulerName: b\n",
        );
        let profiles = plan_profiles(&configuration).unwrap();
        let [a, b] = profiles.as_slice() else { panic!("{profiles:?}") };
        assert_eq!((a.scheduler_name.as_str(), a.percentage_of_nodes_to_score), ("a", 30));
        assert_eq!((b.scheduler_name.as_str(), b.percentage_of_nodes_to_score), ("b", 40));
        assert_eq!(a.enabled.score, [Weighted { plugin: Plugin::NodeAffinity, weight: 7 }]);
        assert!(!a.enabled.filter.contains(&Plugin::NodePorts));
        assert!(b.enabled.filter.contains(&Plugin::NodePorts));
        assert!(a.enabled.post_filter == [Plugin::DynamicResources]);
    }
}
