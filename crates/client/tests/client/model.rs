//! Two mounts at random against a simple tree: each sees what both have done.

use std::collections::BTreeMap;

use fulmar_base::{Errno, Rng};
use fulmar_client::{Caller, FileSystem, OpenOptions, blocking};

use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;
/// How many operations.
const STEPS: usize = 300;

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory(BTreeMap<u8, Self>),
    /// A file with this content.
    File(Vec<u8>),
}

/// Names are letters, and paths have at most three.
type Path = Vec<u8>;

fn directory<'a>(tree: &'a mut Node, path: &[u8]) -> Result<&'a mut BTreeMap<u8, Node>, Errno> {
    let mut node = tree;
    for name in path {
        let Node::Directory(names) = node else { return Err(Errno::ENOTDIR) };
        node = names.get_mut(name).ok_or(Errno::ENOENT)?;
    }
    match node {
        Node::Directory(names) => Ok(names),
        Node::File(_) => Err(Errno::ENOTDIR),
    }
}

fn any(rng: &mut Rng) -> Path {
    (0..rng.between(1, 4)).map(|_| b'a' + rng.below(3) as u8).collect()
}

fn text(path: &[u8]) -> Vec<u8> {
    path.iter().flat_map(|name| [b'/', *name]).collect()
}

/// What an operation does to the tree, and what the mount says.
fn step(rng: &mut Rng, tree: &mut Node, fs: &FileSystem) -> (Result<(), Errno>, Result<(), Errno>) {
    let (path, mount) = (any(rng), blocking::FileSystem::of(fs.clone()));
    let (&name, above) = path.split_last().expect("it has a name");
    match rng.below(5) {
        0 => {
            let own = directory(tree, above).and_then(|names| match names.get(&name) {
                Some(_) => Err(Errno::EEXIST),
                None => {
                    names.insert(name, Node::Directory(BTreeMap::new()));
                    Ok(())
                }
            });
            (own, mount.mkdir(text(&path), 0o755).map(drop))
        }
        1 => {
            let data = vec![rng.below(256) as u8; rng.between(1, 5000) as usize];
            let own = directory(tree, above).and_then(|names| match names.get(&name) {
                Some(Node::Directory(_)) => Err(Errno::EISDIR),
                _ => {
                    names.insert(name, Node::File(data.clone()));
                    Ok(())
                }
            });
            let options = OpenOptions { truncate: true, ..OpenOptions::create(0o644) };
            let written = mount.open(text(&path), options).and_then(|file| {
                file.write(0, data)?;
                file.close()
            });
            (own, written)
        }
        2 => {
            let own = directory(tree, above).and_then(|names| match names.get(&name) {
                None => Err(Errno::ENOENT),
                Some(Node::Directory(_)) => Err(Errno::EISDIR),
                Some(Node::File(_)) => {
                    names.remove(&name);
                    Ok(())
                }
            });
            (own, mount.unlink(text(&path)))
        }
        3 => {
            let own = directory(tree, above).and_then(|names| match names.get(&name) {
                None => Err(Errno::ENOENT),
                Some(Node::File(_)) => Err(Errno::ENOTDIR),
                Some(Node::Directory(inside)) if !inside.is_empty() => Err(Errno::ENOTEMPTY),
                Some(Node::Directory(_)) => {
                    names.remove(&name);
                    Ok(())
                }
            });
            (own, mount.rmdir(text(&path)))
        }
        _ => {
            let to = any(rng);
            (rename(tree, &path, &to), mount.rename(text(&path), text(&to)))
        }
    }
}

fn rename(tree: &mut Node, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    let ((&old, above), (&new, target)) =
        (from.split_last().expect("it has a name"), to.split_last().expect("it has a name"));
    directory(tree, above)?;
    let replaced = directory(tree, target)?.get(&new).cloned();
    let moved = directory(tree, above)?.get(&old).cloned().ok_or(Errno::ENOENT)?;
    if from == to {
        return Ok(());
    }
    match (&moved, &replaced) {
        (Node::Directory(_), _) if to.starts_with(from) => return Err(Errno::EINVAL),
        (_, Some(Node::Directory(_))) if from.starts_with(to) => return Err(Errno::ENOTEMPTY),
        (Node::File(_), Some(Node::Directory(_))) => return Err(Errno::EISDIR),
        (Node::Directory(_), Some(Node::File(_))) => return Err(Errno::ENOTDIR),
        (_, Some(Node::Directory(inside))) if !inside.is_empty() => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    directory(tree, above)?.remove(&old);
    directory(tree, target)?.insert(new, moved);
    Ok(())
}

/// Reads the whole tree of a mount.
fn read(fs: &blocking::FileSystem, path: &[u8]) -> BTreeMap<u8, Node> {
    let mut found = BTreeMap::new();
    for item in fs.list(text(path)).unwrap() {
        let inside: Path = path.iter().copied().chain([item.name[0]]).collect();
        let attributes = fs.attributes(text(&inside)).unwrap();
        let node = if attributes.is_directory() {
            Node::Directory(read(fs, &inside))
        } else {
            let file = fs.open(text(&inside), OpenOptions::read()).unwrap();
            let data = file.read(0, 1 << 20).unwrap();
            assert_eq!(data.len() as u64, attributes.size);
            file.close().unwrap();
            Node::File(data)
        };
        found.insert(item.name[0], node);
    }
    found
}

#[test]
fn both_mounts_see_one_tree() {
    let rig = Rig::start("model", 1);
    let mounts = [rig.mount(), rig.mount()];
    let mut rng = Rng::new(7);
    let mut tree = Node::Directory(BTreeMap::new());
    let mut done = 0;
    for number in 0..STEPS {
        let fs = &mounts[rng.below(2) as usize];
        let (own, theirs) = step(&mut rng, &mut tree, fs);
        assert_eq!(own, theirs, "step {number}");
        done += usize::from(own.is_ok());
        if number % 60 == 59 {
            let Node::Directory(expected) = &tree else { unreachable!("the root stays") };
            for fs in &mounts {
                let fs = blocking::FileSystem::of(fs.clone()).on_behalf_of(ROOT);
                assert_eq!(read(&fs, b""), *expected, "after step {number}");
            }
        }
    }
    assert!(done > STEPS / 8, "{done} have done something");
}
