//! Batches: tests that run and stop together. Spec: lnet-selftest §5.4, §9.2.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{
    Batch as BatchRequest, BatchId, BatchOperation, BatchReply, Body,
};

use crate::Selftest;
use crate::framework::Outcome;
use crate::session::SessionNumber;
use crate::unit::InstanceId;

/// A batch as known by a node: the tests installed here, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) instances: Vec<Role>,
    /// How many of its tests have running units.
    pub(crate) active: usize,
}

/// The role of this node in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client(InstanceId),
    /// No work: the services answer in any case.
    Server,
}

impl Batch {
    pub(crate) fn is_active(&self) -> bool {
        self.active > 0
    }

    /// Returns the tests of which this node is a client.
    pub(crate) fn clients(&self) -> impl Iterator<Item = InstanceId> + use<'_> {
        self.instances.iter().filter_map(|role| match role {
            Role::Client(instance) => Some(*instance),
            Role::Server => None,
        })
    }
}

impl Selftest {
    pub(crate) fn batch(&mut self, now: Time, request: &BatchRequest) -> Outcome {
        let result = match request.operation {
            BatchOperation::RUN => self.run(now, request).map(|()| 0),
            BatchOperation::STOP => self.stop(request).map(|()| 0),
            BatchOperation::QUERY => self.query(request),
            _ => match self.batch_of(request) {
                Ok(_) => return Outcome::Drop,
                Err(errno) => Err(errno),
            },
        };
        let (status, active) = match result {
            Ok(active) => (0, active),
            Err(errno) => (errno.0 as u32, 0),
        };
        let session = self.sessions.current_id();
        Outcome::Reply(Body::BatchReply(BatchReply { status, session, active, time: 0 }))
    }

    fn run(&mut self, now: Time, request: &BatchRequest) -> Result<(), Errno> {
        let batch = self.batch_of(request)?;
        if batch.is_active() {
            return Ok(());
        }
        let clients: Vec<_> = batch.clients().collect();
        batch.active = clients.len();
        if let Some(session) = self.sessions.current_mut() {
            session.active += usize::from(!clients.is_empty());
        }
        for instance in clients {
            self.start_instance(now, instance);
        }
        Ok(())
    }

    fn stop(&mut self, request: &BatchRequest) -> Result<(), Errno> {
        let batch = self.batch_of(request)?;
        let clients: Vec<_> = batch.clients().collect();
        for instance in clients {
            // A forced stop does not abort RPCs that a plain stop lets complete.
            if self.instances.stop(instance) && request.argument != 0 {
                self.abort_instance(instance);
            }
        }
        self.dismiss_waiting();
        Ok(())
    }

    fn query(&mut self, request: &BatchRequest) -> Result<u32, Errno> {
        let batch = self.batch_of(request)?;
        let test = i32::try_from(request.test).map_err(|_| Errno::EINVAL)?;
        if test == 0 {
            return Ok(batch.active as u32);
        }
        match batch.instances.get(test as usize - 1).copied() {
            Some(Role::Client(instance)) => Ok(self.instances.get(instance).active),
            Some(Role::Server) => Ok(0),
            None => Err(Errno::ENOENT),
        }
    }

    fn batch_of(&mut self, request: &BatchRequest) -> Result<&mut Batch, Errno> {
        let (_, session) = self.sessions.find(request.session).ok_or(Errno::ESRCH)?;
        session.batches.get_mut(&request.batch).ok_or(Errno::ENOENT)
    }

    /// Stops all tests of a session that has ended, at once.
    pub(crate) fn abort_session(&mut self, number: SessionNumber) {
        let batches = &self.sessions.get_mut(number).batches;
        let clients: Vec<_> = batches.values().flat_map(Batch::clients).collect();
        for instance in clients {
            self.instances.stop(instance);
            self.abort_instance(instance);
        }
        self.dismiss_waiting();
    }

    /// Handles the end of the last unit of an instance.
    pub(crate) fn instance_ended(&mut self, number: SessionNumber, batch: BatchId) {
        let session = self.sessions.get_mut(number);
        let batch = session.batches.get_mut(&batch).expect("a batch exists as long as its session");
        batch.active -= 1;
        session.active -= usize::from(!batch.is_active());
        self.bury(number);
    }
}
