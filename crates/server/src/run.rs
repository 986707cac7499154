//! The targets in the driver.

use std::sync::Arc;

use fulmar_base::{BufferId, Errno};
use fulmar_net::{self as net, Buffer, Host, Job, Node, Running, Service};

use crate::context::Work;
use crate::memory::{Memories, Memory};
use crate::targets::Targets;

impl Memory for Buffer {
    fn size(&self) -> usize {
        self.len()
    }

    fn write_at(&self, offset: usize, bytes: &[u8]) {
        Self::write_at(self, offset, bytes);
    }

    fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        Self::read_at(self, offset, bytes);
    }
}

/// Runs the work of the targets' operations.
#[derive(Debug)]
pub struct TargetHost(Arc<Memories<Buffer>>);

impl Host for TargetHost {
    type Service = Targets;

    fn memory(&self, buffer: BufferId) -> Option<net::Memory> {
        self.0.get(buffer).map(|buffer| net::Memory::from(&*buffer))
    }

    fn handle(&self, _: &Service, _: &mut Targets, work: Work) -> Option<Job<Targets>> {
        Some(Box::new(move || {
            work.run();
            Box::new(Targets::resume)
        }))
    }
}

/// Serves the targets on a node.
///
/// # Errors
/// Why a portal cannot be opened.
pub fn start(
    node: &Node,
    targets: Targets,
    memories: Arc<Memories<Buffer>>,
) -> Result<Running<TargetHost>, Errno> {
    Running::start(node, Targets::CONFIG, targets, TargetHost(memories), [])
}
