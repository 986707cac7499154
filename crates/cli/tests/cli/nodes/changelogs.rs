//! The changelog of an MDT, from the command line.

use super::lab::{Lab, fulmar, ran};

#[test]
fn users_of_a_changelog_are_registered_shown_and_forgotten() {
    let lab = Lab::new("changelogs");
    let made = ran(fulmar(&lab.path("")).args(["mkfs", "--mgs", "--mdt", "--fsname", "lv", "mdt"]));
    assert_eq!(made.0, 0, "{made:?}");
    let args = ["--networks", "tcp(127.0.0.59)", "--target", "mdt"];
    let node = lab.node_with(59, &args);
    let device = "lctl --device lv-MDT0000";
    let ok = |words: &str| {
        let (status, out, err) = node.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words}");
        out
    };
    let refused = |words: &str, errno: i32, part: &str| {
        let (status, _, err) = node.run(words);
        assert_eq!(status, errno, "{words}: {err}");
        assert!(err.contains(part), "{words}: {err}");
    };
    let registered = ok(&format!("{device} changelog_register"));
    assert_eq!(registered, "lv-MDT0000: Registered changelog userid 'cl1'\n");
    let named = ok(&format!("{device} changelog_register -n -u robin -m -ALL+CREAT"));
    assert_eq!(named, "cl2-robin\n");
    refused(
        &format!("{device} changelog_register -u robin"),
        17,
        "changelog_register: User exists",
    );
    refused(&format!("{device} changelog register -m CREATE"), 22, "changelog_register");
    refused("lctl changelog_register", 22, "You must say '--device <MDT>'");
    refused("lctl --device lv-MDT0001 changelog_register", 19, "does not serve lv-MDT0001");
    let users = ok("lctl get_param -n mdd.*.changelog_users");
    let lines: Vec<&str> = users.lines().collect();
    assert_eq!(lines[..2], ["current_index: 0", "ID                            index (idle) mask"]);
    assert!(lines[2].starts_with("cl1                               0 ("), "{users}");
    assert!(lines[3].ends_with(" mask=MARK,CREAT"), "{users}");
    let set = ok("lctl set_param mdd.*.changelog_mask=+ATIME");
    assert_eq!(set, "mdd.lv-MDT0000.changelog_mask=+ATIME\n");
    assert!(ok("lctl get_param mdd.lv-MDT0000.changelog_mask").contains(" CTIME ATIME MIGRT "));
    refused("lctl set_param mdd.*.changelog_size=1", 13, "changelog_size cannot be set");
    refused("lctl set_param mdd.*.changelog_mask=X", 22, "Invalid argument");
    let gone = ok(&format!("{device} changelog_deregister cl1"));
    assert_eq!(gone, "lv-MDT0000: Deregistered changelog user #1\n");
    refused(&format!("{device} changelog_deregister 1"), 2, "User not found");
    refused(&format!("{device} changelog_deregister clx"), 22, "expect <ID> or cl<ID>[-name]");
    assert_eq!(node.terminate().0, Some(0));

    let node = lab.node_with(59, &args);
    let (status, out, _) = node.run(&format!("{device} changelog_deregister -u robin"));
    assert_eq!((status, out.as_str()), (0, "lv-MDT0000: Deregistered changelog user #2\n"));
    assert_eq!(node.terminate().0, Some(0));
}
