//! The process that offers memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, MdOptions};
use fulmar_net::{Buffer, Node, Runtime};

use super::{Endpoint, PLACES, PORTAL, SIZES, Served, TICK, match_bits, tell, wait_for_the_end};
use crate::check::Checker;
use crate::exchange::offer;
use crate::witness::Witness;

/// What all handlers count.
#[derive(Default)]
struct Counts {
    puts: AtomicU64,
    gets: AtomicU64,
}

/// Room for the PUTs of one length.
struct Room {
    buffer: Buffer,
    checker: Checker,
    /// The number of the last message in each place.
    last: Mutex<[u64; PLACES]>,
}

/// Offers memory until standard input ends. Says `ready`, and in the end what it [`Served`].
///
/// # Errors
/// Why there is no such node.
pub fn serve(endpoint: &Endpoint) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (node, witness) = endpoint.start(&runtime)?;
    let counts = Arc::new(Counts::default());
    let refused = |errno: Errno| format!("no memory can be offered: {errno}");
    let rooms = SIZES.map(|size| open(&node, size, &counts));
    let rooms: Result<Vec<Arc<Room>>, Errno> = rooms.into_iter().collect();
    let rooms = rooms.map_err(refused)?;
    println!("ready");
    while_watched(&node, &witness, wait_for_the_end);
    witness.rest(&node);
    node.stop();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    tell(&Served {
        puts: count(&counts.puts),
        gets: count(&counts.gets),
        repeated: witness.repeated(),
        wrong: rooms.iter().find_map(|room| room.checker.result().err()),
        broken: witness.found(),
    });
    Ok(())
}

/// Does something while the witness looks at the node every [`TICK`].
fn while_watched(node: &Node, witness: &Witness, work: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                witness.look(node);
                std::thread::sleep(TICK);
            }
        });
        work();
        ended.store(true, Ordering::Relaxed);
    });
}

/// Offers room for PUTs of a length, and a message of that length to GETs.
fn open(node: &Node, size: usize, counts: &Arc<Counts>) -> Result<Arc<Room>, Errno> {
    let source = node.allocate(size);
    Checker::new(size).fill(&source);
    let counted = counts.clone();
    let on_get = move |_: &Node, event: &Event| {
        if event.kind == EventKind::Get {
            counted.gets.fetch_add(1, Ordering::Relaxed);
        }
    };
    let options = MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE);
    offer(node, (PORTAL, match_bits(size, false)), &source, options, Arc::new(on_get))?;
    let buffer = node.allocate(size * PLACES);
    let checker = Checker::new(size);
    checker.fill(&buffer);
    let room = Arc::new(Room { buffer, checker, last: Mutex::new([0; PLACES]) });
    let (counted, taken) = (counts.clone(), room.clone());
    let on_put = move |_: &Node, event: &Event| taken.take(event, &counted);
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    offer(node, (PORTAL, match_bits(size, true)), &room.buffer, options, Arc::new(on_put))?;
    Ok(room)
}

impl Room {
    fn take(&self, event: &Event, counts: &Counts) {
        if event.kind != EventKind::Put || event.status.is_err() {
            return;
        }
        counts.puts.fetch_add(1, Ordering::Relaxed);
        let (at, number) = (event.offset as usize, event.header_data);
        // Several senders at once write over each other, and ask for nothing.
        if number == UNCHECKED {
            return;
        }
        let place = at / event.mlength.max(1) as usize;
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut last[place % PLACES], number)
        };
        // What comes again was checked, and erased, when it came first.
        if last != number {
            self.checker.check(&self.buffer, at, number);
        }
    }
}

/// The header data of a PUT that is not to be checked.
pub(super) const UNCHECKED: u64 = 0;
