//! The strings of module parameters: `networks=`, `ip2nets=`, `routes=`, and lines of modprobe.d
//! with them. Spec: lnet-admin §18.1, lnet-behaviour §13.2 to §13.4.

use fulmar_lnet_wire::{Net, Nid};

use super::diagnostic::{Diagnostic, Text};
use super::lnet_conf::CPT_MAX;
use super::model::{NetConf, NiConf, RouteConf};
use super::parameters::{Module, Parameters};
use super::pattern::{AddressPattern, expand, number_list};

type Result<T> = std::result::Result<T, Diagnostic>;

/// An entry of the parameter `ip2nets`: nets for nodes with one of the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ip2NetsRule {
    pub nets: Vec<NetConf>,
    pub patterns: Vec<AddressPattern>,
}

/// The networks and other settings of module parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ModuleOptions {
    pub networks: Option<Vec<NetConf>>,
    pub ip2nets: Option<Vec<Ip2NetsRule>>,
    pub routes: Vec<RouteConf>,
    pub parameters: Parameters,
    /// Modules of other networks and services, whose options a node does not use.
    pub foreign: Vec<String>,
}

impl ModuleOptions {
    /// Reads the lines of a modprobe.d file: `options lnet networks=tcp(eth0) accept=all`. Other
    /// commands are ignored.
    pub(crate) fn read_lines(&mut self, text: Text<'_>) -> Result<()> {
        for line in continued_lines(text) {
            let mut words = quoted_words(line)?.into_iter();
            if words.next().is_none_or(|word| word.s != "options") {
                continue;
            }
            let Some(name) = words.next() else { continue };
            match Module::of_name(name.s) {
                Some(module) => words.try_for_each(|word| self.read_option(module, word))?,
                None if self.foreign.iter().any(|known| known == name.s) => {}
                None => self.foreign.push(name.s.to_owned()),
            }
        }
        Ok(())
    }

    /// Reads `accept=all`. The value may be in quotes, or all of it.
    fn read_option(&mut self, module: Module, word: Text<'_>) -> Result<()> {
        let joined = word.s.replace("\\\r\n", "").replace("\\\n", "");
        let word = unquoted(Text { s: &joined, ..word });
        let Some(equals) = word.s.find('=') else {
            let error = word.error(format!("\"{}\" has no value", word.s));
            return Err(error.with_help(format!("write {}=VALUE", word.s)));
        };
        self.set(module, word.range(0..equals), unquoted(word.from(equals + 1)))
    }

    /// Sets one parameter.
    pub(crate) fn set(&mut self, module: Module, name: Text<'_>, value: Text<'_>) -> Result<()> {
        match (module, name.s) {
            (Module::Lnet, "networks") => self.networks = Some(networks(value)?),
            (Module::Lnet, "ip2nets") => self.ip2nets = Some(ip2nets(value)?),
            (Module::Lnet, "routes") => self.routes = routes(value)?,
            _ => return self.parameters.set(module, name, value),
        }
        if self.networks.is_some() && self.ip2nets.is_some() {
            let message = "Please specify EITHER 'networks' or 'ip2nets' but not both at once";
            return Err(name.error(message).with_help("remove one of the two"));
        }
        Ok(())
    }
}

/// Splits into lines. A line that ends with a backslash goes on in the next one.
fn continued_lines(text: Text<'_>) -> Vec<Text<'_>> {
    let (mut lines, mut start) = (Vec::new(), 0);
    for (end, _) in text.s.match_indices('\n') {
        let before = &text.s[start..end];
        if !before.strip_suffix('\r').unwrap_or(before).ends_with('\\') {
            lines.push(text.range(start..end));
            start = end + 1;
        }
    }
    lines.push(text.from(start));
    lines
}

/// Splits at blanks outside quotes, up to a comment. Continuations are no blanks.
fn quoted_words(line: Text<'_>) -> Result<Vec<Text<'_>>> {
    let mut words = Vec::new();
    let (mut start, mut quote) = (None, None);
    let mut chars = line.s.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        match (quote, c) {
            (_, '\\') if chars.next_if(|(_, next)| matches!(next, '\r' | '\n')).is_some() => {
                chars.next_if(|(_, next)| *next == '\n');
                continue;
            }
            (None, '#') if start.is_none() => return Ok(words),
            (None, '"' | '\'') => quote = Some((c, index)),
            (Some((open, _)), c) if c == open => quote = None,
            (None, c) if c.is_whitespace() => {
                if let Some(start) = start.take() {
                    words.push(line.range(start..index));
                }
                continue;
            }
            _ => {}
        }
        start = start.or(Some(index));
    }
    if let Some((_, index)) = quote {
        let error = line.from(index).error("a quote is never closed");
        return Err(error.with_help("add a quote at the end of the value"));
    }
    words.extend(start.map(|start| line.from(start)));
    Ok(words)
}

fn unquoted(text: Text<'_>) -> Text<'_> {
    let quoted = |q| text.s.len() >= 2 && text.s.starts_with(q) && text.s.ends_with(q);
    if quoted('"') || quoted('\'') { text.range(1..text.s.len() - 1) } else { text }
}

/// Reads `tcp0(eth0),o2ib(ib0,ib1[2])[0,1]`.
pub(crate) fn networks(text: Text<'_>) -> Result<Vec<NetConf>> {
    let mut nets: Vec<NetConf> = Vec::new();
    for piece in split_outside(text, |c| c == ',')? {
        let piece = piece.trim();
        if piece.is_empty() {
            let error = piece.error("a network is missing here");
            return Err(error.with_help("write one such as tcp(eth0), or remove the comma"));
        }
        let Some(net) = network(piece)? else { continue };
        match nets.iter_mut().find(|known| known.net == net.net) {
            Some(known) => known.nis.extend(net.nis),
            None => nets.push(net),
        }
    }
    Ok(nets)
}

/// Reads `o2ib(ib0,ib1[2])[0,1]`; `None` for the loopback, which always exists.
fn network(text: Text<'_>) -> Result<Option<NetConf>> {
    let end = text.s.find(|c: char| "([".contains(c) || c.is_whitespace());
    let end = end.unwrap_or(text.s.len());
    let net: Net = text.range(0..end).parse()?;
    let mut rest = text.from(end).trim();
    let mut nis = Vec::new();
    if let Some((inside, after)) = bracketed(rest, '(', ')')? {
        nis = interface_specs(inside)?;
        rest = after.trim();
    } else {
        nis.push(NiConf::default());
    }
    if let Some((cpts, after)) = bracketed(rest, '[', ']')? {
        let cpts = number_list(cpts, CPT_MAX)?;
        for ni in nis.iter_mut().filter(|ni| ni.cpts.is_none()) {
            ni.cpts = Some(cpts.clone());
        }
        rest = after.trim();
    }
    if !rest.is_empty() {
        let error = rest.error(format!("\"{}\" is not expected after a network", rest.s));
        return Err(error.with_help("separate networks by a comma, as in tcp(eth0),tcp1(eth1)"));
    }
    Ok((net != Net::LOOPBACK).then_some(NetConf { net, nis }))
}

/// Reads `ib0,ib1[2]`.
pub(crate) fn interface_specs(text: Text<'_>) -> Result<Vec<NiConf>> {
    let pieces = split_outside(text, |c| c == ',')?;
    pieces.into_iter().map(|piece| interface_spec(piece.trim())).collect()
}

/// Reads `ib1[2]`, with CPU partitions or without.
pub(crate) fn interface_spec(text: Text<'_>) -> Result<NiConf> {
    let end = text.s.find('[').unwrap_or(text.s.len());
    let name = text.range(0..end).trim();
    if name.is_empty() || name.s.contains(char::is_whitespace) {
        let error = name.error(format!("\"{}\" is not the name of an interface", name.s));
        return Err(error.with_help("write one such as eth0, or its address"));
    }
    let cpts = match bracketed(text.from(end), '[', ']')? {
        Some((_, after)) if !after.trim().is_empty() => {
            return Err(after.error(format!("\"{}\" is not expected here", after.s)));
        }
        Some((cpts, _)) => Some(number_list(cpts, CPT_MAX)?),
        None => None,
    };
    Ok(NiConf { interfaces: vec![name.s.to_owned()], cpts, ..NiConf::default() })
}

/// Splits `(inside)after`, if `text` begins with `open`.
fn bracketed(text: Text<'_>, open: char, close: char) -> Result<Option<(Text<'_>, Text<'_>)>> {
    if !text.s.starts_with(open) {
        return Ok(None);
    }
    match text.s.find(close) {
        Some(end) => Ok(Some((text.range(1..end), text.from(end + 1)))),
        None => Err(unclosed(text, open, close)),
    }
}

fn unclosed(text: Text<'_>, open: char, close: char) -> Diagnostic {
    text.error(format!("\"{open}\" is never closed")).with_help(format!("add the \"{close}\""))
}

/// Splits at the characters that `separates` accepts, outside parentheses and brackets.
pub(crate) fn split_outside(
    text: Text<'_>,
    separates: impl Fn(char) -> bool,
) -> Result<Vec<Text<'_>>> {
    let (mut pieces, mut start, mut open) = (Vec::new(), 0, Vec::new());
    for (index, c) in text.s.char_indices() {
        match c {
            '(' | '[' => open.push((index, c)),
            ')' | ']' => {
                let wanted = if c == ')' { '(' } else { '[' };
                if open.pop().is_none_or(|(_, c)| c != wanted) {
                    let error = text.from(index).error(format!("\"{c}\" has no opening bracket"));
                    return Err(error.with_help(format!("add the \"{wanted}\" or remove it")));
                }
            }
            c if open.is_empty() && separates(c) => {
                pieces.push(text.range(start..index));
                start = index + c.len_utf8();
            }
            _ => {}
        }
    }
    if let Some((index, c)) = open.pop() {
        return Err(unclosed(text.from(index), c, if c == '(' { ')' } else { ']' }));
    }
    pieces.push(text.from(start));
    Ok(pieces)
}

/// Returns the entries between `;` and line ends, without comments and empty ones.
fn entries(text: Text<'_>) -> Vec<Text<'_>> {
    let pieces = text.split(|c| c == ';' || c == '\n').into_iter();
    let bare = pieces.map(|piece| match piece.s.find('#') {
        Some(comment) => piece.range(0..comment).trim(),
        None => piece.trim(),
    });
    bare.filter(|piece| !piece.is_empty()).collect()
}

/// Reads `tcp0(eth0) 192.168.0.[2,4]; o2ib 10.1.*.*`.
pub(crate) fn ip2nets(text: Text<'_>) -> Result<Vec<Ip2NetsRule>> {
    let rule = |entry: Text<'_>| {
        let words = split_outside(entry, char::is_whitespace)?;
        let words: Vec<Text<'_>> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let [nets, patterns @ ..] = words.as_slice() else {
            unreachable!("entries are not empty");
        };
        if patterns.is_empty() {
            let error = entry.error(format!("\"{}\" has no address pattern", entry.s));
            return Err(error.with_help("add the addresses, as in tcp 10.0.*.*"));
        }
        let patterns = patterns.iter().map(|word| AddressPattern::parse(*word));
        Ok(Ip2NetsRule { nets: networks(*nets)?, patterns: patterns.collect::<Result<_>>()? })
    };
    entries(text).into_iter().map(rule).collect()
}

/// Reads `o2ib 1 192.168.1.[1-4]@tcp:0; tcp2 10.1.0.1@o2ib`: every net with every gateway.
pub(crate) fn routes(text: Text<'_>) -> Result<Vec<RouteConf>> {
    let mut routes = Vec::new();
    for entry in entries(text) {
        routes.extend(route(entry)?);
    }
    Ok(routes)
}

fn route(entry: Text<'_>) -> Result<Vec<RouteConf>> {
    let (mut nets, mut hop, mut gateways): (Vec<Net>, _, Vec<(Nid, u32)>) =
        (Vec::new(), None, Vec::new());
    for (index, word) in entry.words().into_iter().enumerate() {
        if word.s.contains('@') {
            gateways.extend(gateway(word)?);
        } else if word.s.bytes().all(|b| b.is_ascii_digit()) && index > 0 && hop.is_none() {
            hop = Some(word.number("the number of hops", 1, 255)? as u32);
        } else if hop.is_none() && gateways.is_empty() {
            for net in expand(word)? {
                nets.push(Text { s: &net, ..word }.parse()?);
            }
        } else {
            let error = word.error(format!("\"{}\" is not a gateway", word.s));
            return Err(error.with_help("write a NID such as 10.0.0.1@tcp"));
        }
    }
    if nets.is_empty() || gateways.is_empty() {
        let missing = if nets.is_empty() { "remote net" } else { "gateway" };
        let error = entry.error(format!("the route \"{}\" has no {missing}", entry.s));
        return Err(error.with_help("write NET [HOPS] GATEWAY…, as in o2ib 1 10.0.0.1@tcp"));
    }
    let by_all = |net: &Net| {
        let one = |(gateway, priority): &(Nid, u32)| RouteConf {
            net: *net,
            gateway: *gateway,
            hop,
            priority: *priority,
            health_sensitivity: None,
        };
        gateways.iter().map(one).collect::<Vec<_>>()
    };
    Ok(nets.iter().flat_map(by_all).collect())
}

/// Reads `192.168.1.[1-4]@tcp:2`: gateways with their priority.
fn gateway(word: Text<'_>) -> Result<Vec<(Nid, u32)>> {
    let at = word.s.rfind('@').unwrap_or(0);
    let (nids, priority) = match word.s[at..].find(':') {
        Some(colon) => {
            let priority = word.from(at + colon + 1);
            (word.range(0..at + colon), priority.u32("the priority")?)
        }
        None => (word, 0),
    };
    let nid = |text: String| Ok((Text { s: &text, ..word }.parse()?, priority));
    expand(nids)?.into_iter().map(nid).collect()
}
