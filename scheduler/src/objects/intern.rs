//! Strings as integers.
//!
//! Owns the table of all strings that the planner compares. Symbols are never freed one by one: the table grows with the
//! number of different label values and names that were seen. Whoever owns it looks at [`Interner::bytes`], and begins
//! with an empty one when the texts of objects long gone outweigh the others.

use std::sync::Arc;

use hashbrown::HashMap;

/// A string of an [`Interner`]. Equal symbols are equal strings; their order is the order of interning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

impl Symbol {
    /// The empty string, in every interner.
    pub const EMPTY: Symbol = Symbol(0);

    /// Its place in tables that are indexed by symbols.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The table of strings.
#[derive(Debug)]
pub struct Interner {
    symbols: HashMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
    bytes: usize,
}

/// Memory of a text beside its own bytes: two pointers in the list, two and the symbol in the map with its spare places, the
/// counters of its allocation and what the allocator rounds up.
const ENTRY_BYTES: usize = 88;

impl Default for Interner {
    fn default() -> Interner {
        let mut interner = Interner { symbols: HashMap::new(), texts: Vec::new(), bytes: 0 };
        interner.intern("");
        interner
    }
}

impl Interner {
    /// The symbol of `text`.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.symbols.get(text) {
            return *symbol;
        }
        let symbol = Symbol(u32::try_from(self.texts.len()).expect("fewer than 2^32 strings fit in memory"));
        self.bytes += text.len() + ENTRY_BYTES;
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.symbols.insert(text, symbol);
        symbol
    }

    /// The symbol of `text`, if it was interned before.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.symbols.get(text).copied()
    }

    /// How much memory the table takes, within some ten percent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The string of a symbol.
    pub fn text(&self, symbol: Symbol) -> &Arc<str> {
        &self.texts[symbol.index()]
    }
}
