//! Taints of nodes and tolerations of pods.
//!
//! Owns their compiled forms and which toleration tolerates which taint.

use crate::api::core::v1;

use super::intern::{Interner, Symbol};

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
    /// An effect that this version does not know: it keeps no pod away.
    Unknown,
}

impl Effect {
    fn named(name: &str) -> Effect {
        match name {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::Unknown,
        }
    }

    /// Whether it keeps pods off the node.
    pub fn is_hard(self) -> bool {
        matches!(self, Effect::NoSchedule | Effect::NoExecute)
    }
}

/// A taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: Symbol,
    /// Its value; may be empty.
    pub value: Symbol,
    /// Its effect.
    pub effect: Effect,
}

impl Taint {
    /// Compiles a taint.
    pub fn compile(interner: &mut Interner, taint: &v1::Taint) -> Taint {
        Taint {
            key: interner.intern(&taint.key),
            value: interner.intern(&taint.value),
            effect: Effect::named(&taint.effect),
        }
    }
}

/// A toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// `None`: every key.
    key: Option<Symbol>,
    /// `None`: every value.
    value: Option<Symbol>,
    /// `None`: every effect.
    effect: Option<Effect>,
}

impl Toleration {
    /// Compiles a toleration; `None` if its operator is unknown, and then it tolerates nothing.
    pub fn compile(interner: &mut Interner, toleration: &v1::Toleration) -> Option<Toleration> {
        let value = match toleration.operator.as_str() {
            "" | "Equal" => Some(interner.intern(&toleration.value)),
            "Exists" => None,
            _ => return None,
        };
        Some(Toleration {
            key: (!toleration.key.is_empty()).then(|| interner.intern(&toleration.key)),
            value,
            effect: (!toleration.effect.is_empty()).then(|| Effect::named(&toleration.effect)),
        })
    }

    /// Whether it tolerates `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && self.value.is_none_or(|value| value == taint.value)
    }

    /// Whether it can tolerate taints that only prefer.
    pub fn covers_preferences(&self) -> bool {
        self.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
    }
}

/// Whether one of `tolerations` tolerates `taint`.
pub fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}
