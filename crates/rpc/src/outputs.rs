//! What a machine wants, in the order that costs its host least.

use std::collections::VecDeque;

use fulmar_lnet::{Op, ServiceOutput};

/// Outputs of a service: first what its host must know, then its posts. What the host does in return is
/// more posts, and all of them become one batch, under LNet's lock once.
#[derive(Debug)]
pub(crate) struct Outputs<R> {
    requests: VecDeque<R>,
    posts: VecDeque<Op>,
}

impl<R> Outputs<R> {
    pub(crate) fn new() -> Self {
        Self { requests: VecDeque::new(), posts: VecDeque::new() }
    }

    pub(crate) fn push_back(&mut self, output: ServiceOutput<R>) {
        match output {
            ServiceOutput::Host(request) => self.requests.push_back(request),
            ServiceOutput::Post(op) => self.posts.push_back(op),
        }
    }

    pub(crate) fn extend(&mut self, outputs: impl IntoIterator<Item = ServiceOutput<R>>) {
        outputs.into_iter().for_each(|output| self.push_back(output));
    }

    pub(crate) fn pop_front(&mut self) -> Option<ServiceOutput<R>> {
        let request = self.pop_request().map(ServiceOutput::Host);
        request.or_else(|| self.posts.pop_front().map(ServiceOutput::Post))
    }

    pub(crate) fn pop_request(&mut self) -> Option<R> {
        self.requests.pop_front()
    }
}
