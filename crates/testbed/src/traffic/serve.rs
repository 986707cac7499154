//! The process that offers memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, MdOptions, ServiceConfig};
use fulmar_net::exchange::{Checker, anyone};
use fulmar_net::{Batch, Buffer, Delivery, Descriptor, Handler, Node, Runtime, Service};

use super::{
    Endpoint, PLACES, PORTAL, SIZES, ServerReport, TICK, match_bits, print_line,
    wait_for_end_of_input,
};
use crate::witness::Witness;

/// The counters of all handlers.
#[derive(Default)]
struct Counts {
    puts: AtomicU64,
    gets: AtomicU64,
}

/// Memory for the PUTs of one length.
struct Room {
    buffer: Buffer,
    checker: Checker,
    /// The number of the last message in each slot.
    last: Mutex<[u64; PLACES]>,
}

/// Offers memory until standard input ends. Prints `ready`, and at the end a [`ServerReport`].
///
/// # Errors
/// Why the node does not start.
pub fn serve(endpoint: &Endpoint) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (node, witness) = endpoint.start(&runtime)?;
    let offers = Offers::open(&node);
    let offers = offers.map_err(|errno| format!("cannot attach memory: {errno}"))?;
    println!("ready");
    while_watched(&node, &witness, wait_for_end_of_input);
    witness.check_idle(&node);
    node.stop();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    print_line(&ServerReport {
        puts: count(&offers.counts.puts),
        gets: count(&offers.counts.gets),
        repeated: witness.repeated(),
        wrong: offers.rooms.iter().find_map(|room| room.checker.result().err()),
        broken: witness.found(),
    });
    Ok(())
}

/// Runs `work` while the witness checks the node every [`TICK`].
fn while_watched(node: &Node, witness: &Witness, work: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                witness.check_active(node);
                std::thread::sleep(TICK);
            }
        });
        work();
        ended.store(true, Ordering::Relaxed);
    });
}

/// The offered memory: for each length, slots for PUTs and a message for GETs.
struct Offers {
    counts: Counts,
    rooms: Vec<Room>,
}

impl Offers {
    /// Attaches all memory; [`Descriptor::user`] is the index of the length.
    fn open(node: &Node) -> Result<Arc<Self>, Errno> {
        let rooms = SIZES.into_iter().map(Room::new).collect();
        let offers = Arc::new(Self { counts: Counts::default(), rooms });
        let service = node.open_service(ServiceConfig::default(), offers.clone())?;
        let mut batch = Batch::new();
        for (index, size) in SIZES.into_iter().enumerate() {
            let source = Buffer::new(size);
            Checker::new(size).fill(&source);
            let both =
                [(MdOptions::OP_GET, &source), (MdOptions::OP_PUT, &offers.rooms[index].buffer)];
            for (access, buffer) in both {
                let me = anyone(match_bits(size, access == MdOptions::OP_PUT));
                let options = access.with(MdOptions::MANAGE_REMOTE);
                let descriptor = Descriptor::over(buffer).options(options).user(index as u64);
                batch.attach(PORTAL, me, descriptor);
            }
        }
        service.post(batch).into_iter().try_for_each(|attached| attached.map(drop))?;
        Ok(offers)
    }
}

impl Handler for Offers {
    fn handle(&self, _: &Service, events: &mut Vec<Delivery>) {
        for Delivery { event, .. } in events.drain(..) {
            match event.kind {
                EventKind::Get => drop(self.counts.gets.fetch_add(1, Ordering::Relaxed)),
                EventKind::Put => self.rooms[event.user as usize].take(&event, &self.counts),
                _ => {}
            }
        }
    }
}

impl Room {
    fn new(size: usize) -> Self {
        let (buffer, checker) = (Buffer::new(size * PLACES), Checker::new(size));
        checker.fill(&buffer);
        Self { buffer, checker, last: Mutex::new([0; PLACES]) }
    }

    fn take(&self, event: &Event, counts: &Counts) {
        if event.status.is_err() {
            return;
        }
        counts.puts.fetch_add(1, Ordering::Relaxed);
        let (at, number) = (event.offset as usize, event.header_data);
        // Several senders overwrite the data of each other, which is then not checked.
        if number == UNCHECKED {
            return;
        }
        let place = at / event.mlength.max(1) as usize;
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut last[place % PLACES], number)
        };
        // A message that arrives again was checked and erased the first time.
        if last != number {
            self.checker.check(&self.buffer, at, number);
        }
    }
}

/// The header data of a PUT that is not to be checked.
pub(super) const UNCHECKED: u64 = 0;
