//! One file for support: the report, and what it was judged from.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use fulmar_control::api::Client;
use tar::{Builder, Header};

use crate::evidence::{client, raw};
use crate::finding::Report;
use crate::render;

/// The directory in which everything is unpacked.
const ROOT: &str = "fulmar-doctor";

/// Writes the report, for people and for programs, and what the host says in raw. `control` is the
/// control socket of its node; `None` where it is by default.
///
/// # Errors
/// Why the file cannot be written, with its name.
pub fn write(path: &Path, reports: &[Report], control: Option<&Path>) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let file = File::create(path).map_err(told)?;
    pack(file, reports, &client(control)).map_err(told)
}

fn pack(file: impl Write, reports: &[Report], client: &Client) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    let at = reports.first().map_or(0, |report| report.at);
    let mut add = |name: &str, text: &str| {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(at);
        // Names of the host's files have slashes in front, which no archive may.
        let name = name.replace("//", "/");
        archive.append_data(&mut header, format!("{ROOT}/{name}"), text.as_bytes())
    };
    let document = serde_json::to_string_pretty(reports)?;
    add("report.json", &document)?;
    let texts: Vec<String> = reports.iter().map(render::report).collect();
    add("report.txt", &texts.join("\n"))?;
    if let Some(report) = reports.first() {
        for (name, text) in raw::gather(&report.here, client) {
            add(&format!("here/{name}"), &text)?;
        }
    }
    archive.into_inner()?.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;
    use crate::{Check, Options, examine};

    #[test]
    fn a_bundle_unpacks_to_the_report_and_what_it_was_judged_from() {
        let options = Options { checks: vec![Check::Limits, Check::Clock], ..Options::default() };
        let report = examine(&options, &mut |_| {});
        let mut bytes = Vec::new();
        let nobody = Client::new("/no/such.sock");
        pack(&mut bytes, std::slice::from_ref(&report), &nobody).unwrap();
        let mut archive = Archive::new(GzDecoder::new(bytes.as_slice()));
        let mut files = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(name, text);
        }
        let document: Vec<Report> =
            serde_json::from_str(&files["fulmar-doctor/report.json"]).unwrap();
        assert_eq!(document, [report]);
        assert!(files["fulmar-doctor/report.txt"].contains("2 checks in"));
        assert!(files.contains_key("fulmar-doctor/here/sysctl/net.ipv4.txt"), "{:?}", files.keys());
        assert!(files.contains_key("fulmar-doctor/here/files/proc/net/snmp"), "{:?}", files.keys());
    }
}
