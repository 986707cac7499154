//! Commands that no test can run: whether they, and their options, exist.

use std::process::Command;

use super::root;

/// Words after which another command begins.
const ENDS: [&str; 6] = ["|", ">", "&&", "||", ";", "&"];

/// Checks the commands of a block. The error names one that does not exist.
pub(crate) fn check(commands: &str) -> Result<(), String> {
    let shell = Command::new("bash").args(["-n", "-c", commands]).output();
    let shell = shell.map_err(|error| error.to_string())?;
    if !shell.status.success() {
        return Err(String::from_utf8_lossy(&shell.stderr).into_owned());
    }
    commands.replace("\\\n", " ").lines().try_for_each(line)
}

fn line(line: &str) -> Result<(), String> {
    let words = shlex::split(line).ok_or_else(|| format!("a quote is open in {line}"))?;
    for command in words.split(|word| ENDS.contains(&word.as_str())) {
        let command = match command {
            [first, rest @ ..] if first == "sudo" => rest,
            all => all,
        };
        match command {
            [tool, args @ ..] if tool == "fulmar" => exists(args).map(drop)?,
            [make, target, ..] if make == "make" => is_target(target)?,
            _ => {}
        }
    }
    Ok(())
}

/// Requires that the binary knows the arguments: it reads them before it comes to the last one. Returns the help.
fn exists(args: &[String]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.args(args).arg("--help").output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The same, where the last one may be an option without its value.
fn is_mentioned(args: &[String]) -> Result<(), String> {
    match args.split_last() {
        Some((option, others)) if option.starts_with('-') => {
            if exists(others)?.contains(option) {
                Ok(())
            } else {
                Err(format!("{others:?} has no {option}"))
            }
        }
        _ => exists(args).map(drop),
    }
}

/// Checks a command in a sentence, up to its first placeholder: `fulmar interop NID`.
pub(crate) fn check_span(span: &str) -> Result<(), String> {
    let is_placeholder = |word: &str| {
        word.contains(['…', '|'])
            || (word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()))
    };
    let words = span.split_whitespace().take_while(|word| !is_placeholder(word));
    let words: Vec<String> = words.map(str::to_owned).collect();
    match words.split_first() {
        Some((tool, args)) if tool == "fulmar" => is_mentioned(args),
        Some((tool, [_, ..])) if ["lnetctl", "lctl", "lst"].contains(&tool.as_str()) => {
            is_mentioned(&words)
        }
        Some((tool, [target, ..])) if tool == "make" => is_target(target),
        _ => Ok(()),
    }
}

fn is_target(name: &str) -> Result<(), String> {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap_or_default();
    let target = format!("{name}:");
    if makefile.lines().any(|line| line.starts_with(&target)) {
        Ok(())
    } else {
        Err(format!("there is no make {name}"))
    }
}

#[test]
fn what_does_not_exist_is_found() {
    assert_eq!(check("sudo fulmar tune --rate 100Gbit --rtt 50.5ms   # why\nmake test\n"), Ok(()));
    assert!(check("fulmar tune --rates 100Gbit").is_err());
    assert!(check("true && fulmar tunes").is_err());
    assert!(check("make nothing").is_err());
    assert!(check("echo 'open").is_err());
    assert_eq!(check_span("fulmar interop NID"), Ok(()));
    assert_eq!(check_span("lnetctl route add|del"), Ok(()));
    assert!(check_span("lctl get_params").is_err());
    assert!(check_span("fulmar fnord").is_err());
    assert_eq!(check_span("fulmar node -c FILE"), Ok(()));
    assert!(check_span("fulmar node --files FILE").is_err());
}
