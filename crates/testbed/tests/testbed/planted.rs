//! Random operations, and a model with a fault: the tester finds each fault in a few seconds, and shows it by few operations.

use std::time::Instant;

use fulmar_testbed::model::planted::{Fault, FaultyFileSystem};
use fulmar_testbed::model::{Settings, Step, check, generate, shrink};

const CLIENTS: u8 = 3;
const SETTINGS: Settings =
    Settings { clients: CLIENTS, steps: 200, faults: true, together: true, layout: None };
/// Seeds in which each fault is found.
const SEEDS: u64 = 120;
/// The most operations that show one.
const FEW: usize = 8;

#[test]
fn the_model_admits_itself() {
    for seed in 1..=SEEDS {
        let done =
            check(&generate(seed, SETTINGS), CLIENTS, &mut FaultyFileSystem::new(Fault::None));
        done.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

fn find(fault: Fault) {
    let begun = Instant::now();
    let mut fails =
        |steps: &[Step]| check(steps, CLIENTS, &mut FaultyFileSystem::new(fault)).is_err();
    let mut seeds = (1..=SEEDS).map(|seed| (seed, generate(seed, SETTINGS)));
    let found = seeds.find(|(_, steps)| fails(steps));
    let (seed, steps) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
    let took = begun.elapsed().as_secs_f64();
    let few = shrink(&steps, 500, &mut fails);
    println!(
        "{fault:?}: found after {took:.2} s by seed {seed}, shown by {} operations",
        few.len()
    );
    assert!(few.len() <= FEW, "{fault:?} needs {few:#?}");
}

macro_rules! found {
    ($($name:ident: $fault:ident,)*) => {
        $(
            #[test]
            fn $name() {
                find(Fault::$fault);
            }
        )*

        #[test]
        fn each_fault_has_a_test() {
            assert_eq!(Fault::ALL, [$(Fault::$fault),*]);
        }
    };
}

found! {
    border_is_lost: BorderIsLost,
    cut_is_kept: CutIsKept,
    append_is_old: AppendIsOld,
    punch_ends_early: PunchEndsEarly,
    zero_keeps_length: ZeroKeepsLength,
    data_are_skipped: DataAreSkipped,
    unlinked_is_empty: UnlinkedIsEmpty,
    rename_does_not_replace: RenameDoesNotReplace,
    link_is_not_counted: LinkIsNotCounted,
    name_is_listed_twice: NameIsListedTwice,
    length_is_old: LengthIsOld,
    time_is_unsigned: TimeIsUnsigned,
    write_keeps_time: WriteKeepsTime,
    no_blocks: NoBlocks,
    xattr_is_kept: XattrIsKept,
    acl_ignores_mode: AclIgnoresMode,
    default_is_ignored: DefaultIsIgnored,
    locks_are_local: LocksAreLocal,
    close_keeps_locks: CloseKeepsLocks,
    restart_loses_writes: RestartLosesWrites,
    eviction_keeps_locks: EvictionKeepsLocks,
    append_is_repeated: AppendIsRepeated,
    update_is_lost: UpdateIsLost,
    both_create: BothCreate,
    cut_stops_at_border: CutStopsAtBorder,
    hole_takes_end: HoleTakesEnd,
    store_is_page: StoreIsPage,
    private_is_shared: PrivateIsShared,
    kill_loses_sync: KillLosesSync,
    kill_loses_sync_writes: KillLosesSyncWrites,
    listing_is_old: ListingIsOld,
    refused_is_done: RefusedIsDone,
    refusal_takes_next: RefusalTakesNext,
}
