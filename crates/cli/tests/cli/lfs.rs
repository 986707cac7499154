//! `fulmar lfs` and `fulmar lctl dl` where there is no file system.

use std::process::Command;

fn run(line: &str) -> (i32, String) {
    let words = line.split_whitespace();
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar")).args(words).output().unwrap();
    assert!(output.stdout.is_empty(), "{line}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_error_says_what_does_not_answer_and_what_to_do() {
    let port = fulmar_loopback::ports(1);
    for command in ["lfs df", "lfs osts", "lfs mdts", "lfs check all", "lctl dl"] {
        let (status, error) = run(&format!("{command} 127.0.0.31@tcp:/lv --port {port}"));
        let name = command.trim_end_matches(" all");
        let start = format!("fulmar {name}: the MGS at 127.0.0.31@tcp does not answer: ");
        assert!(error.starts_with(&start), "{error}");
        assert!(
            error.contains(&format!("TCP port {port} of 127.0.0.31 cannot be reached")),
            "{error}"
        );
        assert!(error.contains("Is LNet up there"), "{error}");
        assert_eq!(status, 1, "{command}");
    }
}

#[test]
fn an_invalid_request_is_explained() {
    for (line, expected) in [
        ("lfs df 10.0.0.300@tcp:/lustre", "\"10.0.0.300@tcp\" is not a NID"),
        ("lfs osts 10.0.0.1@tcp:/lustre --timeout 0", "0 is not in 1..=3600"),
        ("lfs check disks 10.0.0.1@tcp:/lustre", "possible values: osts, mdts, mgts, all, servers"),
    ] {
        let (status, error) = run(line);
        assert_eq!(status, 2, "{line}");
        assert!(error.contains(expected), "{error}");
    }
    for (line, expected) in [
        ("lfs df /", "fulmar lfs df: / is on no file system that is mounted by fulmar\n"),
        (
            "lfs osts /no/where",
            "fulmar lfs osts: /no/where: No such file or directory (os error 2)\n",
        ),
    ] {
        assert_eq!(run(line), (1, expected.to_owned()), "{line}");
    }
    let (status, error) = run("lfs df 10.0.0.1@o2ib:/lustre");
    assert_eq!(
        error,
        "fulmar lfs df: the network of 10.0.0.1@o2ib is not supported: only tcp is\n"
    );
    assert_eq!(status, 1);
}
