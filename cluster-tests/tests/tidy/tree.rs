//! The source tree for the rules: files by extension, without build outputs and downloads, and the part of a file that is
//! built into the product.

use std::fs;
use std::path::{Path, PathBuf};

/// A file with its name relative to the root.
pub(crate) struct Source {
    /// Path from the root, with slashes.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: String,
}

/// Beginnings of the attributes of items that only tests have.
const TEST_ONLY: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test"];

impl Source {
    /// The text with each item that only tests have as empty lines, so that numbers of lines stay. Behind such an item the
    /// product goes on: a field for tests may stand in the middle of a file. Ends of items are found by their
    /// indentation, which is the formatter's.
    pub(crate) fn product(&self) -> String {
        let mut product = String::with_capacity(self.text.len());
        let mut lines = self.text.lines().peekable();
        while let Some(line) = lines.next() {
            let indent = indent(line);
            if !TEST_ONLY.iter().any(|attribute| line[indent..].starts_with(attribute)) {
                product.push_str(line);
                product.push('\n');
                continue;
            }
            product.push('\n');
            let mut is_ended = false;
            while !is_ended && lines.peek().is_some() {
                let part = lines.next().unwrap_or_default();
                product.push('\n');
                is_ended = ends_item(part, indent);
            }
        }
        product
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether `line` is the last one of an item that begins behind `own` spaces.
fn ends_item(line: &str, own: usize) -> bool {
    let content = line.trim();
    let is_attribute = content.starts_with("#[") || content.starts_with("//");
    let is_block_end = matches!(content, "}" | "};" | "}," | ")" | ");" | ")," | "]" | "];" | "],");
    let is_whole = content.ends_with([';', ',']) || (content.ends_with('}') && content.contains('{'));
    indent(line) == own && !content.is_empty() && !is_attribute && (is_block_end || is_whole)
}

#[test]
fn items_of_tests_are_left_out_and_what_follows_them_is_not() {
    let text = "use a;\n#[cfg(test)]\nuse b;\nstruct S {\n    #[cfg(test)]\n    /// For tests.\n    c: u8,\n    d: u8,\n}\n\
                #[cfg(test)]\nfn e() {\n    if f {\n    }\n}\nfn g() {\n    #[cfg(test)]\n    h(\n        1,\n    );\n    i();\n}\n\
                #[cfg(test)]\nmod j;\nfn k() {}\n#[cfg(any(test, feature = \"x\"))]\n#[must_use]\nfn l() {}\n\
                #[cfg(test)]\nmod tests {\n    fn m() {}\n\n    fn n() {}\n}\n";
    let source = Source { name: "x.rs".to_owned(), text: text.to_owned() };
    let product = source.product();
    assert_eq!(product.lines().count(), text.lines().count());
    let left: Vec<&str> = product.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(left, ["use a;", "struct S {", "d: u8,", "}", "fn g() {", "i();", "}", "fn k() {}"]);
}

/// Folders at the root that hold no sources.
const NOT_SOURCES: [&str; 2] = ["target", "orch-data"];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in a folder of the root")
}

/// Every file with the extension `extension`, in order of names.
pub(crate) fn sources(extension: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(root(), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        Source {
            name,
            text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        }
    };
    paths.into_iter().map(read).collect()
}

/// The folders at the root.
pub(crate) fn top_folders() -> Vec<String> {
    let entries = fs::read_dir(root()).expect("the root can be read");
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| is_source(name)).collect();
    names.sort();
    names
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if !is_source(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn is_source(name: &str) -> bool {
    !name.starts_with('.') && !NOT_SOURCES.contains(&name)
}
