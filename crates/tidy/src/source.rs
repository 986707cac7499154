//! A Rust file as tokens: the paths that it names, and the lengths of its functions.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A parsed Rust file.
#[derive(Debug)]
pub struct Source {
    /// The path, relative to the root of the repository.
    pub path: String,
    /// The number of lines.
    pub lines: usize,
    /// Every path and single word, including arguments of macros and lists in `use`.
    pub names: Vec<Name>,
    /// The functions that have a body.
    pub functions: Vec<Function>,
}

/// A path such as `std::fs::File`, or a single word such as `unsafe`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Name {
    pub segments: Vec<String>,
    pub line: usize,
    /// Whether it is compiled only for tests.
    pub test: bool,
}

/// A function: from `fn` to its closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

impl Source {
    /// Parses a file.
    ///
    /// # Panics
    /// If the text is not Rust.
    pub fn parse(path: &str, text: &str) -> Self {
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
        let mut source = Self {
            path: path.into(),
            lines: text.lines().count(),
            names: vec![],
            functions: vec![],
        };
        let test = path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests");
        source.read(tokens, &[], test);
        source
    }

    /// Returns the names outside tests.
    pub fn names_in_product(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().filter(|name| !name.test)
    }

    /// Returns `NAME` of a path `crates/NAME/…`.
    pub fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Reads tokens that follow `prefix::`, if that is not empty.
    fn read(&mut self, tokens: TokenStream, prefix: &[String], test: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        // A `#[cfg(test)]` applies up to the end of its item.
        let mut test_item = false;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Ident(_) => {
                    self.read_function(&tokens[at..]);
                    at += self.read_path(&tokens[at..], prefix, test || test_item);
                    continue;
                }
                TokenTree::Group(group) if is_test_attribute(&tokens[..at], group) => {
                    test_item = true;
                }
                TokenTree::Group(group) => {
                    let inner = if group.delimiter() == Delimiter::Brace { prefix } else { &[] };
                    self.read(group.stream(), inner, test || test_item);
                    test_item &= group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Punct(punct) => test_item &= punct.as_char() != ';',
                TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    /// Reads the path that starts with the first token; returns its number of tokens.
    fn read_path(&mut self, tokens: &[TokenTree], prefix: &[String], test: bool) -> usize {
        let mut segments = prefix.to_vec();
        let line = tokens[0].span().start().line;
        let mut at = 0;
        loop {
            match tokens.get(at) {
                Some(TokenTree::Ident(ident)) => segments.push(ident.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.read(group.stream(), &segments, test);
                    return at + 1;
                }
                _ => break,
            }
            at += 1;
            if !(is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1))) {
                break;
            }
            at += 2;
        }
        self.names.push(Name { segments, line, test });
        at
    }

    /// Records the function that starts with the first token, if there is one.
    fn read_function(&mut self, tokens: &[TokenTree]) {
        let [TokenTree::Ident(keyword), TokenTree::Ident(name), rest @ ..] = tokens else { return };
        if keyword != "fn" {
            return;
        }
        for token in rest {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                    let line = keyword.span().start().line;
                    let lines = body.span_close().end().line - line + 1;
                    return self.functions.push(Function { name: name.to_string(), line, lines });
                }
                _ => {}
            }
        }
    }
}

impl Name {
    /// Returns whether the name contains `path`, such as `std::fs`.
    pub fn contains(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split("::").collect();
        self.segments.windows(wanted.len()).any(|window| window == wanted.as_slice())
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

fn is_test_attribute(before: &[TokenTree], group: &Group) -> bool {
    let hash = matches!(before.last(), Some(TokenTree::Punct(punct)) if punct.as_char() == '#');
    let text = group.stream().to_string().replace(' ', "");
    hash && group.delimiter() == Delimiter::Bracket && (text == "cfg(test)" || text == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let source = Source::parse("crates/a/src/lib.rs", text);
        source.names_in_product().map(|name| name.segments.join("::")).collect()
    }

    #[test]
    fn lists_of_uses_and_arguments_of_macros_are_paths_too() {
        let got = names("use std::{fs::{self, File}, io}; m!(std::env::var(x));");
        let want = ["use", "std::fs::self", "std::fs::File", "std::io", "m", "std::env::var", "x"];
        assert_eq!(got, want);
    }

    #[test]
    fn names_in_comments_and_strings_are_ignored() {
        assert_eq!(
            names("// unsafe\n/* unsafe */ const A: &str = \"unsafe\";"),
            ["const", "A", "str"]
        );
    }

    #[test]
    fn tests_are_distinguished_from_the_product() {
        assert_eq!(names("#[cfg(test)] mod t { unsafe fn f() {} } fn g() {}"), ["fn", "g"]);
        assert_eq!(names("#[cfg(test)] mod t; fn g() {}"), ["fn", "g"]);
        let source = Source::parse("crates/a/tests/x.rs", "fn f() { unsafe {} }");
        assert_eq!(source.names_in_product().count(), 0);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = "trait T {\n fn no_body(&self);\n fn f()\n where A: B,\n {\n }\n}";
        let source = Source::parse("crates/a/src/lib.rs", text);
        assert_eq!(source.functions, [Function { name: "f".into(), line: 3, lines: 4 }]);
    }
}
