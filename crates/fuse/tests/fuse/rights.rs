//! What users may do by their groups, and with programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;

use crate::rig::Rig;

/// A user that no machine knows, in two groups beside its own.
const USER: &str = "4711";
const GROUPS: [u32; 2] = [4712, 4713];
const CAPABILITY: &str = "security.capability";

/// Runs a command of a shell in a directory as the user, and returns whether it succeeds.
fn as_user(directory: &Path, command: &str) -> bool {
    let groups = GROUPS.map(|group| group.to_string()).join(",");
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid", USER, "--regid", USER, "--groups", &groups, "sh", "-c", command]);
    shell.current_dir(directory).output().unwrap().status.success()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn each_group_of_a_user_counts() {
    let Some(mut rig) = Rig::start("groups") else { return };
    let lv = rig.mount("");
    let own = lv.join("own");
    fs::write(&own, "own").unwrap();
    std::os::unix::fs::chown(&own, Some(4711), Some(4711)).unwrap();
    for group in GROUPS {
        assert!(as_user(&lv, &format!("chgrp {group} own")));
        assert_eq!(fs::metadata(&own).unwrap().gid(), group);
    }
    assert!(!as_user(&lv, "chgrp 4714 own"));
    // A list that gives a group what the mode does not give others.
    let directory = lv.join("d");
    fs::create_dir(&directory).unwrap();
    let shared = directory.join("shared");
    fs::write(&shared, "shared").unwrap();
    set_mode(&shared, 0o600);
    set_mode(&directory, 0o700);
    let list = |bits: u16| {
        let entries = [
            (1, 7, u32::MAX),
            (4, 0, u32::MAX),
            (8, bits, GROUPS[1]),
            (16, 7, u32::MAX),
            (32, 0, u32::MAX),
        ];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            let (tag, bits): (u16, u16) = (tag, bits);
            list.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        list
    };
    let set = |path, bits| {
        let name = "system.posix_acl_access";
        rustix::fs::setxattr(path, name, &list(bits), XattrFlags::empty()).unwrap();
    };
    assert!(!as_user(&lv, "cat d/shared"));
    set(&directory, 7);
    set(&shared, 4);
    assert!(as_user(&lv, "cat d/shared") && !as_user(&lv, "echo more >> d/shared"));
    set(&shared, 6);
    assert!(as_user(&lv, "echo more >> d/shared"));
    assert!(as_user(&lv, "touch d/new && mkdir d/below && mv d/new d/below/old && rm -r d/below"));
    rig.stop();
}

#[test]
fn a_program_is_run_by_who_may_not_read_it() {
    let Some(mut rig) = Rig::start("run") else { return };
    let lv = rig.mount("");
    let program = lv.join("true");
    fs::copy("/bin/true", &program).unwrap();
    set_mode(&program, 0o711);
    assert!(as_user(&lv, "./true") && !as_user(&lv, "cat true"));
    set_mode(&program, 0o700);
    assert!(!as_user(&lv, "./true"));
    rig.stop();
}

#[test]
fn who_changes_a_program_takes_its_capabilities() {
    let Some(mut rig) = Rig::start("capability") else { return };
    let lv = rig.mount("");
    let program = lv.join("program");
    fs::write(&program, "program").unwrap();
    set_mode(&program, 0o777);
    // All of the second version, which take effect.
    let mut all = vec![1, 0, 0, 2];
    all.resize(20, 0);
    all[5] = 4;
    let has = || rustix::fs::getxattr(&program, CAPABILITY, &mut [0; 64][..]).is_ok();
    let changes = ["printf x >> program", "truncate -s 3 program", "fallocate -l 10000 program"];
    for change in changes {
        rustix::fs::setxattr(&program, CAPABILITY, &all, XattrFlags::empty()).unwrap();
        assert!(has());
        assert!(as_user(&lv, change), "{change}");
        assert!(!has(), "{change}");
    }
    rustix::fs::setxattr(&program, CAPABILITY, &all, XattrFlags::empty()).unwrap();
    std::os::unix::fs::chown(&program, Some(1), None).unwrap();
    assert!(!has());
    // With a group that may not execute it, who is not in it takes that too.
    std::os::unix::fs::chown(&program, None, Some(GROUPS[0])).unwrap();
    set_mode(&program, 0o2666);
    assert!(as_user(&lv, "printf x >> program"));
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, 0o2666);
    std::os::unix::fs::chown(&program, None, Some(1)).unwrap();
    set_mode(&program, 0o2666);
    assert!(as_user(&lv, "printf x >> program"));
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, 0o666);
    rig.stop();
}
