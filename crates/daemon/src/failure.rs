//! The end of a process whose node has failed.
//!
//! A node that has failed closes its connections and does nothing more. The process must not look
//! alive, and its threads may be stuck, so it ends without waiting for them.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_control::api::remove_socket;
use fulmar_net::{Failure, Node};

/// For so long after a failure, requests are answered with it.
const GRACE: Duration = Duration::from_secs(1);
/// The exit status.
const STATUS: i32 = 1;

/// Ends the process if the node fails: with a report at once, and after [`GRACE`].
///
/// # Errors
/// If the system creates no thread.
pub(crate) fn watch(node: &Node, socket: &Path) -> io::Result<()> {
    let (node, socket) = (node.clone(), socket.to_owned());
    std::thread::Builder::new().name("fulmar-end".into()).spawn(move || {
        if let Err(failure) = node.wait() {
            // There is no other place to report it.
            let _ = write!(io::stderr(), "{}", Report(&failure));
            std::thread::sleep(GRACE);
            end(socket);
        }
    })?;
    Ok(())
}

/// Ends the process of a node that has failed.
pub(crate) fn end(socket: PathBuf) -> ! {
    // A leftover socket does no harm: the next node replaces it.
    remove_socket(&socket);
    std::process::exit(STATUS)
}

/// The last words of a node, for its administrator.
struct Report<'a>(&'a Failure);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { what, thread, place } = self.0;
        let place = place.as_deref().unwrap_or("an unknown place");
        writeln!(f, "fulmar: the node has failed, because of a defect of Fulmar")?;
        writeln!(f, "  what:   {}", what.replace('\n', " "))?;
        writeln!(f, "  where:  {place}, in thread {thread}")?;
        writeln!(
            f,
            "  effect: all connections are closed, and the process ends with status {STATUS}"
        )?;
        writeln!(
            f,
            "  remedy: start the node again, unless the service manager does; report this text and \
             the log before it, with version {}",
            env!("CARGO_PKG_VERSION")
        )
    }
}
