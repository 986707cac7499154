//! The binary `fulmar`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fulmar::main()
}
