//! The rejectors of pods, plugins and extenders, as numbers and sets.
//!
//! Owns which of them is which bit. Never says which changes help: that is [`super::hints`].

use std::fmt;

use crate::plugin::{Plugin, PluginSet};

/// The plugin that rejected a pod, or the extenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rejector {
    /// A plugin.
    Plugin(Plugin),
    /// HTTP extenders together: nothing is known of what they look at.
    Extenders,
}

impl Rejector {
    /// All of them, the plugins in the order of the default configuration.
    pub fn all() -> impl Iterator<Item = Rejector> {
        Plugin::ALL.into_iter().map(Rejector::Plugin).chain([Rejector::Extenders])
    }

    /// The name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Rejector::Plugin(plugin) => plugin.name(),
            Rejector::Extenders => "Extender",
        }
    }

    fn bit(self) -> u32 {
        match self {
            Rejector::Plugin(plugin) => 1 << plugin as u32,
            Rejector::Extenders => 1 << Plugin::ALL.len(),
        }
    }
}

impl From<Plugin> for Rejector {
    fn from(plugin: Plugin) -> Self {
        Rejector::Plugin(plugin)
    }
}

/// A set of rejectors.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rejectors(u32);

impl Rejectors {
    /// The empty set.
    pub const NONE: Rejectors = Rejectors(0);

    /// Every plugin, and extenders.
    pub fn all() -> Rejectors {
        Rejector::all().collect()
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `rejector` is in the set.
    pub fn contains(self, rejector: impl Into<Rejector>) -> bool {
        self.0 & rejector.into().bit() != 0
    }

    /// The set with `rejector`.
    #[must_use]
    pub fn with(self, rejector: impl Into<Rejector>) -> Rejectors {
        Rejectors(self.0 | rejector.into().bit())
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: Rejectors) -> Rejectors {
        Rejectors(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(self, other: Rejectors) -> Rejectors {
        Rejectors(self.0 & other.0)
    }

    /// Its members, in the order of [`Rejector::all`].
    pub fn iter(self) -> impl Iterator<Item = Rejector> {
        Rejector::all().filter(move |rejector| self.contains(*rejector))
    }
}

impl From<PluginSet> for Rejectors {
    fn from(plugins: PluginSet) -> Self {
        plugins.iter().collect()
    }
}

impl<R: Into<Rejector>> FromIterator<R> for Rejectors {
    fn from_iter<I: IntoIterator<Item = R>>(rejectors: I) -> Rejectors {
        rejectors.into_iter().fold(Rejectors::NONE, Rejectors::with)
    }
}

impl fmt::Debug for Rejectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Rejector::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        for rejector in Rejector::all() {
            let set = Rejectors::NONE.with(rejector);
            assert_eq!(set.iter().collect::<Vec<_>>(), [rejector]);
            assert!(Rejectors::all().contains(rejector));
            assert_eq!(set.intersection(Rejectors::all()), set);
            assert_eq!(set.union(Rejectors::all()), Rejectors::all());
        }
        assert!(Rejectors::NONE.is_empty());
    }
}
