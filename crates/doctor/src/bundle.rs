//! One archive for support: the report and the raw evidence.

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

/// The top directory of the archive.
const ROOT: &str = "fulmar-doctor";

/// Writes the reports as text and as JSON, and the raw evidence of the local host, to `path`.
/// `control` is the control socket of its node; `None` for the default one.
///
/// # Errors
/// The name of the file, and why it cannot be written.
pub fn write(path: &Path, reports: &[Report], control: Option<&Path>) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let file = File::create(path).map_err(failed)?;
    pack(file, reports, &client(control)).map_err(failed)
}

fn pack(file: impl Write, reports: &[Report], client: &Client) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    let at = reports.first().map_or(0, |report| report.at);
    let mut add = |name: &str, text: &str| {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(at);
        // The paths of the host's files are absolute; paths in an archive must be relative.
        let name = name.replace("//", "/");
        archive.append_data(&mut header, format!("{ROOT}/{name}"), text.as_bytes())
    };
    let document = serde_json::to_string_pretty(reports)?;
    add("report.json", &document)?;
    let texts: Vec<String> = reports.iter().map(render::report).collect();
    add("report.txt", &texts.join("\n"))?;
    if let Some(report) = reports.first() {
        for (name, text) in raw::gather(&report.local, client) {
            add(&format!("local/{name}"), &text)?;
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
    fn a_bundle_holds_the_report_and_the_raw_evidence() {
        let options = Options { checks: vec![Check::Limits, Check::Clock], ..Options::default() };
        let report = examine(&options, &mut |_| {});
        let mut bytes = Vec::new();
        let no_node = Client::new("/no/such.sock");
        pack(&mut bytes, std::slice::from_ref(&report), &no_node).unwrap();
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
        assert!(
            files.contains_key("fulmar-doctor/local/sysctl/net.ipv4.txt"),
            "{:?}",
            files.keys()
        );
        assert!(
            files.contains_key("fulmar-doctor/local/files/proc/net/snmp"),
            "{:?}",
            files.keys()
        );
    }
}
