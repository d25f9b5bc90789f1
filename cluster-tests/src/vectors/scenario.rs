//! The recordings as files: areas, scenarios, steps.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::floor;

/// One scenario: steps that share a namespace, names saved from answers, and watches.
#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    /// Its area, which is the name of the file.
    pub area: String,
    /// Its name, unique in the area.
    pub name: String,
    /// Features of the server that it needs beyond the defaults: `serviceaccounts`, `controllers`; mostly empty.
    #[serde(default)]
    pub needs: String,
    /// Its steps as recorded.
    pub steps: Vec<Map<String, Value>>,
}

/// Filter of scenarios; an empty list selects all.
#[derive(Debug, Default)]
pub struct Selection {
    /// Selected areas.
    pub areas: Vec<String>,
    /// Names of the selected scenarios.
    pub names: Vec<String>,
    /// Features of the server beyond its defaults: only scenarios that need one of these are selected. Empty: only those
    /// that need nothing.
    pub needs: Vec<String>,
    /// Suffix of the scenarios' namespaces, to run twice on one server.
    pub suffix: String,
}

/// Reads the scenarios of `selection` from the files in `folder`, in the order of areas.
pub fn load(folder: &Path, selection: &Selection) -> Result<Vec<Scenario>> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let mut scenarios = Vec::new();
    for path in paths {
        let is_area = path.extension().is_some_and(|extension| extension == "json");
        if !is_area || path.ends_with(floor::FILE_NAME) {
            continue;
        }
        let area = path.file_stem().unwrap_or_default().to_string_lossy();
        if selection.areas.is_empty() || selection.areas.iter().any(|wanted| *wanted == area) {
            let text = fs::read_to_string(&path)?;
            let found =
                parse(&text, selection).with_context(|| format!("{} is no recording", path.display()))?;
            scenarios.extend(found);
        }
    }
    ensure!(!scenarios.is_empty(), "no scenario is selected in {}", folder.display());
    Ok(scenarios)
}

fn parse(text: &str, selection: &Selection) -> Result<Vec<Scenario>> {
    let all: Vec<Scenario> = serde_json::from_str(text)?;
    let wanted = |scenario: &Scenario| {
        let has_needs = match selection.needs.is_empty() {
            true => scenario.needs.is_empty(),
            false => selection.needs.contains(&scenario.needs),
        };
        has_needs && (selection.names.is_empty() || selection.names.contains(&scenario.name))
    };
    all.into_iter().filter(wanted).map(|scenario| with_suffix(scenario, &selection.suffix)).collect()
}

/// The scenario with a suffix on its namespace.
fn with_suffix(scenario: Scenario, suffix: &str) -> Result<Scenario> {
    if suffix.is_empty() {
        return Ok(scenario);
    }
    let namespace = format!("v-{}", scenario.name);
    let text = serde_json::to_string(&scenario.steps)?.replace(&namespace, &format!("{namespace}{suffix}"));
    Ok(Scenario { steps: serde_json::from_str(&text)?, ..scenario })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_loads_and_its_paths_are_uris() {
        let scenarios = load(&super::super::folder(), &Selection::default()).unwrap();
        assert!(scenarios.len() > 50);
        for step in scenarios.iter().flat_map(|scenario| &scenario.steps) {
            let Some(request) = step.get("do").and_then(Value::as_str) else { continue };
            let (_, path) = request.split_once(' ').unwrap();
            path.replace(['$', '{', '}'], "").parse::<http::Uri>().unwrap();
        }
    }

    #[test]
    fn a_suffix_moves_a_scenario_to_another_namespace() {
        let selection =
            Selection { names: vec!["role-lifecycle".into()], suffix: "-b".into(), ..Selection::default() };
        let scenarios = load(&super::super::folder(), &selection).unwrap();
        assert_eq!(scenarios[0].steps[0]["body"]["metadata"]["name"], "v-role-lifecycle-b");
    }
}
