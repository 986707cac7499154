//! Lines: wrapped between words, and without characters that control a terminal.

use textwrap::{Options, WordSplitter};

/// Breaks each line of a text into lines of at most `width` columns, between words where possible.
/// A longer word is not split.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrapped(line, options(width))).collect()
}

/// Returns `start` and then `text`, broken into lines of at most `width` columns that are indented
/// by the length of `start`. Each line ends with a newline.
pub fn hanging(start: &str, text: &str, width: usize) -> String {
    if text.is_empty() {
        return format!("{}\n", start.trim_end());
    }
    let indent = " ".repeat(start.chars().count());
    let options = options(width).initial_indent(start).subsequent_indent(&indent);
    wrapped(text, options).into_iter().map(|line| line + "\n").collect()
}

fn options<'a>(width: usize) -> Options<'a> {
    Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation)
}

fn wrapped(text: &str, options: Options<'_>) -> Vec<String> {
    textwrap::wrap(text, options).into_iter().map(Into::into).collect()
}

/// Returns a text as one line, in which control characters and marks of the direction of writing
/// are replaced by `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_invisible(c) { '?' } else { c }).collect()
}

/// Applies [`printable`] to each line of a text.
pub fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if is_invisible(c) && c != '\n' { '?' } else { c }).collect()
}

/// Returns whether a character is not visible: a control character, a line separator, a mark of the
/// direction of writing, or a character without width.
fn is_invisible(c: char) -> bool {
    let unseen = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
    c.is_control() || unseen || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable --long-option", 4), ["unbreakable", "--long-option"]);
        assert_eq!(wrap("one\n\ntwo", 7), ["one", "", "two"]);
    }

    #[test]
    fn later_lines_begin_below_the_text() {
        assert_eq!(hanging("Load  ", "one two three", 13), "Load  one two\n      three\n");
        assert_eq!(hanging("Load: ", "", 13), "Load:\n");
    }

    #[test]
    fn no_character_controls_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\tc"), "a?[2Jb?c");
        assert_eq!(printable("a\nERROR\r\u{202e}b\u{2028}\u{9b}c\u{200b}"), "a?ERROR??b??c?");
        assert_eq!(printable_lines("a\n\x1bb\n"), "a\n?b\n");
    }
}
