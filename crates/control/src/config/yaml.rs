//! YAML as a tree of values with their positions.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use super::diagnostic::{Diagnostic, Position, Source, Text};

/// The maximum depth of maps and lists; lnet.conf needs seven.
const DEPTH_MAX: usize = 32;

/// One value of the document.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    source: &'a Source,
    at: Position,
    kind: Kind<'a>,
}

#[derive(Debug)]
enum Kind<'a> {
    Scalar(String),
    List(Vec<Node<'a>>),
    Map(Vec<(Node<'a>, Node<'a>)>),
}

/// Parses the only document of `source`; an empty one is an empty map.
pub(crate) fn parse(source: &Source) -> Result<Node<'_>, Diagnostic> {
    let mut builder = Builder { source, events: Parser::new_from_str(&source.text) };
    let mut root = None;
    while let Some((event, at)) = builder.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Nothing => {}
            _ if root.is_some() => {
                let error = builder.text(at).error("a second document begins here");
                return Err(error.with_help("keep one document in the file: remove the \"---\""));
            }
            event => root = Some(builder.node(event, at, 0)?),
        }
    }
    let empty = || Node { source, at: source.whole().at, kind: Kind::Map(Vec::new()) };
    Ok(root.unwrap_or_else(empty))
}

struct Builder<'a> {
    source: &'a Source,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Position)>, Diagnostic> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, position(&span.start)))),
            Some(Err(error)) => Err(self.syntax(&error)),
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        at: Position,
        depth: usize,
    ) -> Result<Node<'a>, Diagnostic> {
        if depth > DEPTH_MAX {
            return Err(self.text(at).error("too many levels of nested maps and lists"));
        }
        let (source, mut at) = (self.source, at);
        let kind = match event {
            Event::Scalar(text, style, ..) => {
                if matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) {
                    at.column += 1;
                }
                Kind::Scalar(text.into_owned())
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some((event, at)) = self.within(&Event::SequenceEnd)? {
                    items.push(self.node(event, at, depth + 1)?);
                }
                Kind::List(items)
            }
            Event::MappingStart(..) => Kind::Map(self.map(depth)?),
            _ => {
                let error = self.text(at).error("anchors and aliases are not supported");
                return Err(error.with_help("write the value in full"));
            }
        };
        Ok(Node { source, at, kind })
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Node<'a>, Node<'a>)>, Diagnostic> {
        let mut entries: Vec<(Node<'a>, Node<'a>)> = Vec::new();
        while let Some((event, at)) = self.within(&Event::MappingEnd)? {
            let key = self.node(event, at, depth + 1)?;
            let name = key.text("a key")?;
            if entries.iter().any(|(earlier, _)| earlier.scalar() == Some(name.s)) {
                let error = name.error(format!("the key \"{}\" is given twice", name.s));
                return Err(error.with_help("keep one of the two, or merge their values"));
            }
            let Some((event, at)) = self.next()? else { break };
            let value = self.node(event, at, depth + 1)?;
            entries.push((key, value));
        }
        Ok(entries)
    }

    /// Returns the next event unless it is `end`.
    fn within(&mut self, end: &Event<'_>) -> Result<Option<(Event<'a>, Position)>, Diagnostic> {
        Ok(self.next()?.filter(|(event, _)| event != end))
    }

    fn text(&self, at: Position) -> Text<'a> {
        Text { source: self.source, at, s: "" }
    }

    fn syntax(&self, error: &ScanError) -> Diagnostic {
        let at = self.text(position(error.marker()));
        let diagnostic = at.error(format!("this is not YAML: {}", error.info()));
        match self.source.text.lines().nth(at.at.line - 1) {
            Some(line) if line.contains('\t') => {
                diagnostic.with_help("indent with blanks: YAML does not allow tabs")
            }
            _ => diagnostic,
        }
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

impl<'a> Node<'a> {
    /// Returns the keys and values of a map; none for an empty value.
    pub(crate) fn entries(&self, what: &str) -> Result<Vec<(Text<'_>, &Self)>, Diagnostic> {
        match &self.kind {
            Kind::Map(entries) => {
                entries.iter().map(|(key, value)| Ok((key.text("a key")?, value))).collect()
            }
            _ if self.is_null() => Ok(Vec::new()),
            _ => Err(self.wrong(what, "keys and values")),
        }
    }

    /// Returns the items of a list; none for an empty value.
    pub(crate) fn items(&self, what: &str) -> Result<&[Self], Diagnostic> {
        match &self.kind {
            Kind::List(items) => Ok(items),
            _ if self.is_null() => Ok(&[]),
            _ => Err(self.wrong(what, "a list: begin each item with \"- \"")),
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }

    /// Returns a single value.
    pub(crate) fn text(&self, what: &str) -> Result<Text<'_>, Diagnostic> {
        match &self.kind {
            Kind::Scalar(s) => Ok(Text { s, ..self.place() }),
            _ => Err(self.wrong(what, "a single value")),
        }
    }

    /// Returns the place for an error of the whole value.
    pub(crate) fn place(&self) -> Text<'a> {
        Text { source: self.source, at: self.at, s: "" }
    }

    #[cfg(test)]
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.kind {
            Kind::Scalar(text) => match text.parse::<i64>() {
                Ok(n) => n.into(),
                Err(_) => text.as_str().into(),
            },
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Map(entries) => entries
                .iter()
                .map(|(key, value)| (key.scalar().unwrap().to_owned(), value.to_json()))
                .collect(),
        }
    }

    fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(s) => Some(s),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self.scalar(), Some("" | "~" | "null"))
    }

    fn wrong(&self, what: &str, wanted: &str) -> Diagnostic {
        let got = match self.kind {
            Kind::Scalar(_) => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "keys and values",
        };
        self.place().error(format!("{what} is {got}")).with_help(format!("write {wanted}"))
    }
}
