//! Which crate may depend on which, and what every manifest must contain.

use serde_json::Value;

use crate::Finding;
use crate::purity::UNSAFE;
use crate::repository::read;

/// The crates from the bottom up. A crate may depend only on crates of lower rows; crates of one
/// row are independent of each other.
pub const LAYERS: &[&[&str]] = &[
    &["base", "text", "loopback"],
    &["wire", "tune", "top"],
    &["lnet-wire", "store", "tasks"],
    &["lustre-wire"],
    &["lnd", "checksum", "nodemap"],
    &["socklnd", "lnet", "trace"],
    &["selftest", "rpc", "ldlm", "data"],
    &["target"],
    &["mgs", "ost", "mdt"],
    &["node"],
    &["net", "sim", "link"],
    &["study", "client"],
    &["server", "fuse"],
    &["control"],
    &["doctor", "lst", "daemon"],
    &["cli"],
    &["testbed"],
];

/// Tools for developers; no crate depends on them.
const TOOLS: &[&str] = &["tidy", "runner"];

/// A package of the workspace: its directory in `crates`, and those of its dependencies.
/// Dependencies of tests are not included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<String>,
}

/// Returns the packages that `cargo metadata` lists.
pub fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let package = |value: Value| {
        let ours = |dependency: &Value| {
            let built_in = dependency["kind"] != "dev";
            built_in.then(|| last_part(dependency["path"].as_str()?)).flatten()
        };
        let manifest = value["manifest_path"].as_str().unwrap_or_default();
        Package {
            name: manifest.strip_suffix("/Cargo.toml").and_then(last_part).unwrap_or_default(),
            dependencies: list(&value["dependencies"]).iter().filter_map(ours).collect(),
        }
    };
    list(&metadata["packages"]).into_iter().map(package).collect()
}

/// Returns every dependency on a crate of the same or a higher row.
pub fn check_layers(packages: &[Package]) -> Vec<Finding> {
    let layer = |name: &str| LAYERS.iter().position(|row| row.contains(&name));
    let mut found = vec![];
    for package in packages.iter().filter(|package| !TOOLS.contains(&package.name.as_str())) {
        let manifest = format!("crates/{}/Cargo.toml", package.name);
        let mut add = |what: String| found.push(Finding::new("layers", &manifest, 0, what));
        let Some(own) = layer(&package.name) else {
            add("add this crate to LAYERS in crates/tidy/src/crates.rs".into());
            continue;
        };
        for dependency in &package.dependencies {
            if layer(dependency).is_none_or(|other| other >= own) {
                add(format!("{} may not depend on {dependency}", package.name));
            }
        }
    }
    found
}

/// Returns what is missing in the manifest and the root files of a crate.
pub fn check_manifest(package: &Package) -> Vec<Finding> {
    let name = &package.name;
    let path = format!("crates/{name}/Cargo.toml");
    let manifest: toml::Table =
        read(&path).parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let inherits = |keys: &[&str]| {
        let value = keys.iter().try_fold(None, |table: Option<&toml::Value>, key| {
            Some(Some(table.map_or_else(|| manifest.get(*key), |table| table.get(*key))?))
        });
        value.flatten().and_then(toml::Value::as_bool) == Some(true)
    };
    let mut found = vec![];
    let mut require = |holds: bool, path: &str, what: &str| {
        if !holds {
            found.push(Finding::new("manifest", path, 0, what));
        }
    };
    require(inherits(&["lints", "workspace"]), &path, "add [lints] workspace = true");
    require(inherits(&["package", "license", "workspace"]), &path, "inherit the licence");
    require(manifest["package"].get("description").is_some(), &path, "add a description");
    for root in ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}")) {
        if !UNSAFE.contains(&name.as_str()) && crate::repository::root().join(&root).exists() {
            let forbids = read(&root).contains("#![forbid(unsafe_code)]");
            require(forbids, &root, "add #![forbid(unsafe_code)]");
        }
    }
    found
}

fn last_part(path: &str) -> Option<String> {
    path.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, dependencies: &[&str]) -> usize {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        check_layers(&[Package { name: name.into(), dependencies }]).len()
    }

    #[test]
    fn a_crate_depends_only_on_lower_ones() {
        assert_eq!(found("node", &["base", "lnet", "socklnd"]), 0);
        assert_eq!(found("lnet", &["socklnd"]), 1);
        assert_eq!(found("wire", &["lnet-wire"]), 1);
        assert_eq!(found("sim", &["net"]), 1);
        assert_eq!(found("cli", &["tidy"]), 1);
        assert_eq!(found("nowhere", &[]), 1);
    }

    #[test]
    fn dependencies_of_tests_are_not_checked() {
        let metadata = serde_json::json!({ "packages": [{
            "manifest_path": "/here/crates/lnet/Cargo.toml",
            "dependencies": [
                { "name": "fulmar-base", "path": "/here/crates/base", "kind": null },
                { "name": "fulmar-sim", "path": "/here/crates/sim", "kind": "dev" },
                { "name": "thiserror", "kind": null },
            ],
        }]});
        let expected = Package { name: "lnet".into(), dependencies: vec!["base".into()] };
        assert_eq!(packages(&metadata), [expected]);
    }
}
