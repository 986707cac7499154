//! Pages of README and the guide: their commands, and what is to come of them.
//!
//! ```text
//! <!-- hosts: client 10.0.0.2, router 10.0.0.254 10.1.0.254 -->    with eth0, eth1, … in networks of 24 bits
//!
//! ```sh            commands, run on the first host in one shell for the whole page
//! ```sh router     the same on another one
//! ```sh site       commands that need a real site: not run, but their options are checked
//! ```text          right after a block: its output. … is any text, and as a line any lines
//! ```

/// A page.
pub(crate) struct Page {
    pub(crate) path: String,
    /// Names and addresses.
    pub(crate) hosts: Vec<(String, Vec<String>)>,
    pub(crate) blocks: Vec<Block>,
    /// What is between backquotes in prose and tables, with its line.
    pub(crate) spans: Vec<(usize, String)>,
    /// Where links lead.
    pub(crate) links: Vec<String>,
}

/// Commands between fences.
pub(crate) struct Block {
    /// The line of the first command.
    pub(crate) line: usize,
    pub(crate) place: Place,
    pub(crate) commands: String,
    pub(crate) output: Option<String>,
}

/// Where commands are run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host(String),
    /// Where no test gets.
    Site,
}

const HOSTS: &str = "<!-- hosts:";
const FENCE: &str = "```";

impl Page {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let (path, hosts) = (path.to_owned(), hosts(text));
        let mut page = Self { path, hosts, blocks: vec![], spans: vec![], links: vec![] };
        let mut lines = text.lines().enumerate();
        // Whether only empty lines are between the last block and this line.
        let mut is_next = false;
        while let Some((index, line)) = lines.next() {
            let Some(words) = line.trim_start().strip_prefix(FENCE) else {
                is_next &= line.trim().is_empty();
                let spans = line.split('`').skip(1).step_by(2);
                page.spans.extend(spans.map(|span| (index + 1, span.to_owned())));
                let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
                page.links.extend(links.map(|(link, _)| link.to_owned()));
                continue;
            };
            let block =
                lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != FENCE);
            let content: String = block.map(|line| format!("{line}\n")).collect();
            let words: Vec<&str> = words.split_whitespace().collect();
            match (words.as_slice(), page.blocks.last_mut()) {
                (["sh", place @ ..], _) => {
                    let place = page
                        .place(place)
                        .map_err(|why| format!("{}:{}: {why}", page.path, index + 1))?;
                    page.blocks.push(Block {
                        line: index + 2,
                        place,
                        commands: content,
                        output: None,
                    });
                    is_next = true;
                }
                (["text"], Some(last)) if is_next => {
                    last.output = Some(content);
                    is_next = false;
                }
                _ => is_next = false,
            }
        }
        Ok(page)
    }

    fn place(&self, words: &[&str]) -> Result<Place, String> {
        match words {
            [] => Ok(Place::Host(self.hosts[0].0.clone())),
            ["site"] => Ok(Place::Site),
            [name] if self.hosts.iter().any(|(host, _)| host == name) => {
                Ok(Place::Host((*name).to_owned()))
            }
            _ => Err(format!("{words:?} is neither a host of the page nor \"site\"")),
        }
    }
}

/// Reads the hosts; without any there is one, which has only the loopback.
fn hosts(text: &str) -> Vec<(String, Vec<String>)> {
    let Some(list) = text.lines().find_map(|line| line.strip_prefix(HOSTS)) else {
        return vec![("localhost".to_owned(), vec![])];
    };
    let host = |text: &str| {
        let mut words = text.split_whitespace().map(str::to_owned);
        (words.next().unwrap_or_default(), words.collect())
    };
    list.trim_end_matches("-->").split(',').map(host).collect()
}

/// Whether an output is what a page says.
pub(crate) fn matches(expected: &str, actual: &str) -> bool {
    let lines =
        |text: &'_ str| text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
    let (expected, actual): (Vec<String>, Vec<String>) = (lines(expected), lines(actual));
    lines_match(&expected, &actual)
}

fn lines_match(expected: &[String], actual: &[String]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, _) => actual.is_empty(),
        (Some((line, rest)), _) if line.trim() == "…" => {
            (0..=actual.len()).any(|skipped| lines_match(rest, &actual[skipped..]))
        }
        (Some((line, rest)), Some((found, others))) => {
            line_matches(line, found) && lines_match(rest, others)
        }
        (Some(_), None) => false,
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let Some((before, after)) = expected.split_once('…') else { return expected == actual };
    let Some(rest) = actual.strip_prefix(before) else { return false };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| line_matches(after, &rest[at..]))
}

#[test]
fn blocks_have_places_and_outputs() {
    let text = "<!-- hosts: a 10.0.0.1, b 10.0.0.2 10.1.0.2 -->\n```sh\none\n```\n\n```text\nout\n```\n```sh b\ntwo\n\
                ```\nWords\n```text\nno output\n```\n```sh site\nthree\n```\n";
    let page = Page::parse("a.md", text).unwrap();
    assert_eq!(page.hosts[1], ("b".to_owned(), vec!["10.0.0.2".to_owned(), "10.1.0.2".to_owned()]));
    let found: Vec<_> =
        page.blocks.iter().map(|block| (block.line, block.commands.trim())).collect();
    assert_eq!(found, [(3, "one"), (10, "two"), (17, "three")]);
    assert_eq!(page.blocks[0].output.as_deref(), Some("out\n"));
    assert_eq!(
        (&page.blocks[1].place, &page.blocks[1].output),
        (&Place::Host("b".to_owned()), &None)
    );
    assert_eq!(page.blocks[2].place, Place::Site);
    let page = Page::parse("a.md", "A [b](c.md) and `d e`,\n`f`.\n").unwrap();
    assert_eq!(page.links, ["c.md"]);
    assert_eq!(page.spans, [(1, "d e".to_owned()), (2, "f".to_owned())]);
    assert!(Page::parse("a.md", "```sh nowhere\nx\n```\n").is_err());
}

#[test]
fn only_an_ellipsis_stands_for_other_text() {
    assert!(matches("a …\n…\nend\n", "a 7\nb\nc\nend  \n"));
    assert!(matches("…\nend", "end\n"));
    assert!(matches("rate: … MB/s, …%", "rate: 17.5 MB/s, 3%"));
    assert!(!matches("a\n", "a\nb\n"));
    assert!(!matches("a …", "b 7"));
    assert!(!matches("a\n…\nend", "a\nb\n"));
}
