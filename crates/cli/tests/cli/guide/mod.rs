//! Every command that README and the guide show.

pub(crate) mod lab;
mod page;
mod site;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use lab::{Installation, Lab};
use page::{Block, Page, Place, matches};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns README and the pages of the guide.
fn pages() -> Vec<Page> {
    let root = root();
    let guide = std::fs::read_dir(root.join("docs/guide")).unwrap();
    let mut paths: Vec<PathBuf> = guide.map(|entry| entry.unwrap().path()).collect();
    paths.push(root.join("README.md"));
    paths.sort();
    let page = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        Page::parse(&name, &std::fs::read_to_string(path).unwrap()).unwrap()
    };
    paths.iter().filter(|path| path.extension().is_some_and(|end| end == "md")).map(page).collect()
}

#[test]
fn the_commands_of_the_guide_work() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        let line = "NOT RUN: the commands of the guide: network namespaces and mounts need root and /dev/fuse";
        let mut errors = std::io::stderr();
        writeln!(errors, "\n{line}").unwrap();
        return;
    }
    let installed = Installation::new("guide");
    let pages = pages();
    let failures: Vec<String> = thread::scope(|scope| {
        let installed = &installed;
        let run = |page| scope.spawn(move || run(page, installed));
        let running: Vec<_> = pages.iter().map(run).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn the_commands_of_the_guide_for_sites_exist() {
    let blocks = |page: Page| {
        let sites = page.blocks.into_iter().filter(|block| block.place == Place::Site);
        let failed = |block: Block| {
            let why = site::check(&block.commands).err()?;
            Some(format!("{}:{}: {why}", page.path, block.line))
        };
        sites.filter_map(failed).collect::<Vec<_>>()
    };
    let failures: Vec<String> = pages().into_iter().flat_map(blocks).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn the_commands_in_the_words_of_the_guide_exist() {
    let spans = |page: Page| {
        let failed = |(line, span): (usize, String)| {
            let why = site::check_span(&span).err()?;
            Some(format!("{}:{line}: {why}", page.path))
        };
        page.spans.into_iter().filter_map(failed).collect::<Vec<_>>()
    };
    let failures: Vec<String> = pages().into_iter().flat_map(spans).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn links_of_the_guide_lead_to_files() {
    for page in pages() {
        let directory = root().join(&page.path).parent().unwrap().to_owned();
        for link in page.links.iter().filter(|link| !link.starts_with("https:")) {
            assert!(directory.join(link).exists(), "{}: {link} does not exist", page.path);
        }
    }
}

/// Runs the commands of a page until some fail.
fn run(page: &Page, installed: &Installation) -> Vec<String> {
    if page.blocks.iter().all(|block| block.place == Place::Site) {
        return vec![];
    }
    let mut lab = Lab::start(installed, page);
    for block in &page.blocks {
        let Place::Host(host) = &block.place else { continue };
        let result = lab.run(host, &block.commands);
        let why = match (&result.failed, &block.output) {
            (Some(command), _) => format!("failed: {command}"),
            (None, Some(expected)) if !matches(expected, &result.output) => {
                format!("the output is not\n{expected}but")
            }
            _ => continue,
        };
        return vec![format!("{}:{}: on {host}: {why}\n{}", page.path, block.line, result.output)];
    }
    vec![]
}
