//! A client node as one service of LNet: its imports, and its service of callbacks.

use crate::client::{Client, Notice};
use crate::service::{Server, Task};
use fulmar_base::{Errno, Time};
use fulmar_lnet::{Bound, Event, Md, MdId, Op, Service, ServiceOutput};

/// Two machines as one service of LNet.
#[derive(Debug)]
pub struct Both {
    /// The imports.
    pub client: Client,
    /// The service of callbacks, with a target of the kind
    /// [`Client`](crate::import::TargetKind::Client).
    pub callbacks: Server,
}

/// What one of them wants of its host.
#[derive(Debug)]
pub enum HostRequest {
    /// The imports want this.
    Notice(Notice),
    /// The service wants this.
    Task(Task),
}

/// [`Md::user`] of the callbacks has this bit.
const CALLBACKS: u64 = 1 << 50;

impl Both {
    /// Returns what one of them wants of its host next. A machine that contains both does all of it
    /// before it passes on the posts, which is what [`Service::poll_output`] returns then.
    pub fn poll_wanted(&mut self) -> Option<HostRequest> {
        let notice = self.client.poll_notice().map(HostRequest::Notice);
        notice.or_else(|| self.callbacks.poll_task().map(HostRequest::Task))
    }
}

impl Service for Both {
    type Request = HostRequest;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        let user = event.user & !CALLBACKS;
        if event.user == user {
            self.client.handle_event(now, event, bytes)
        } else {
            self.callbacks.handle_event(now, &Event { user, ..*event }, bytes)
        }
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        match user & CALLBACKS {
            0 => self.client.handle_posted(now, user, result),
            _ => self.callbacks.handle_posted(now, user & !CALLBACKS, result),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.client.handle_timeout(now);
        self.callbacks.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.client.poll_timeout(), self.callbacks.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<HostRequest>> {
        if let Some(output) = self.client.poll_output() {
            return Some(match output {
                ServiceOutput::Post(op) => ServiceOutput::Post(op),
                ServiceOutput::Host(notice) => ServiceOutput::Host(HostRequest::Notice(notice)),
            });
        }
        Some(match self.callbacks.poll_output()? {
            ServiceOutput::Post(op) => ServiceOutput::Post(of_callbacks(op)),
            ServiceOutput::Host(task) => ServiceOutput::Host(HostRequest::Task(task)),
        })
    }
}

fn of_callbacks(mut op: Op) -> Op {
    let mark = |md: &mut Md| md.user |= CALLBACKS;
    match &mut op {
        Op::Attach { md, .. }
        | Op::Put { from: Bound::New(md, _), .. }
        | Op::Get { into: Bound::New(md, _), .. } => mark(md),
        _ => {}
    }
    op
}
