//! Which OSTs a file gets.

use fulmar_lustre_wire::Text;
use fulmar_store::Policy;

use super::*;

const SEQ: u64 = 0x2_4000_0400;

/// Returns OSTs with so many objects each.
fn osts(objects: &[u32]) -> Arc<Osts> {
    let store = Store::memory(b"MDT", Policy::default());
    let osts = Osts::load(&store, 0).unwrap();
    for (index, &created) in (0..).zip(objects) {
        let ost = osts.get_or_add(index, LastObject { seq: SEQ, oid: 0 });
        let mut state = ost.state();
        (state.is_ready, state.created) = (true, created);
    }
    osts
}

fn plan(stripe_count: u16) -> Plan {
    let (first, pool) = (Some(0), None);
    Plan {
        stripe_size: 1 << 20,
        stripe_count,
        stripes_max: 2000,
        first,
        osts: vec![],
        pool,
        is_overstriped: false,
    }
}

fn indices(taken: Result<Vec<Object>, Errno>) -> Result<Vec<u32>, Errno> {
    Ok(taken?.into_iter().map(|(ost, _)| ost).collect())
}

/// The OSTs for a plan, in order, and how many are wanted.
fn candidates(osts: &Osts, plan: &Plan) -> Result<(Vec<u32>, usize), Errno> {
    let (found, count) = osts.candidates(plan)?;
    let mut indices: Vec<u32> = found.iter().map(|ost| ost.index).collect();
    if plan.first.is_none() {
        indices.sort_unstable();
    }
    Ok((indices, count))
}

#[test]
fn a_file_has_a_stripe_on_each_ost_or_several() {
    let osts = osts(&[100, 100, 100]);
    let take = |plan: Plan| indices(osts.take(&plan));
    assert_eq!(take(plan(2)), Ok(vec![0, 1]));
    assert_eq!(take(Plan { first: Some(2), ..plan(0xffff) }), Ok(vec![2, 0, 1]));
    let several = |count| Plan { is_overstriped: true, ..plan(count) };
    assert_eq!(take(several(5)), Ok(vec![0, 1, 2, 0, 1]));
    assert_eq!(take(several(0xfffe)), Ok(vec![0, 1, 2, 0, 1, 2]), "two on each");
    assert_eq!(take(Plan { stripes_max: 4, ..several(0xfff0) }), Ok(vec![0, 1, 2, 0]));
    assert_eq!(take(Plan { first: Some(3), ..plan(1) }), Err(Errno::EINVAL));
    assert!(osts.exists(2) && !osts.exists(3));
}

/// A file with a stripe on each OST does not wait for one that was switched off.
#[test]
fn files_are_made_without_osts_that_are_gone() {
    let osts = osts(&[100; 4]);
    let lose = |index: u32| {
        let ost = osts.get(index).unwrap();
        let mut state = ost.state();
        (state.is_ready, state.is_lost) = (false, true);
    };
    lose(1);
    osts.lose_others(|index| index != 2);
    let take = |plan: Plan| indices(osts.take(&plan));
    assert_eq!(take(plan(0xffff)), Ok(vec![0, 3]));
    assert_eq!(take(plan(4)), Ok(vec![0, 3]));
    assert_eq!(take(Plan { first: Some(1), ..plan(1) }), Ok(vec![3]));
    assert_eq!(take(Plan { is_overstriped: true, ..plan(4) }), Ok(vec![0, 3, 0, 3]));
    (0..4).for_each(lose);
    assert_eq!(take(plan(1)), Err(Errno::EINPROGRESS), "it waits if there is no other");
}

/// What was created on an OST before it was full is used only when all are.
#[test]
fn files_are_made_on_osts_with_room_as_long_as_there_are_some() {
    let osts = osts(&[1, 100, 100]);
    let fill = |index: u32, is_full| osts.get(index).unwrap().state().is_full = is_full;
    let take = |plan: Plan| indices(osts.take(&plan));
    fill(0, true);
    assert_eq!(take(plan(1)), Ok(vec![1]));
    assert_eq!(take(plan(0xffff)), Ok(vec![1, 2]));
    (1..3).for_each(|index| fill(index, true));
    assert_eq!(take(plan(1)), Ok(vec![0]));
    for index in [1, 2] {
        let ost = osts.get(index).unwrap();
        let mut state = ost.state();
        state.created = state.used;
    }
    assert_eq!(take(plan(1)), Err(Errno::ENOSPC));
    fill(2, false);
    assert_eq!(take(plan(1)), Err(Errno::EAGAIN), "it waits for objects of the one with room");
}

#[test]
fn certain_osts_are_all_needed() {
    let osts = osts(&[100, 100, 100, 0]);
    let take = |wanted: &[u32]| {
        let stripe_count = wanted.len() as u16;
        indices(osts.take(&Plan { osts: wanted.to_vec(), ..plan(stripe_count) }))
    };
    assert_eq!(take(&[2, 0]), Ok(vec![2, 0]));
    assert_eq!(take(&[0, 1, 2, 3]), Err(Errno::EAGAIN));
    assert_eq!(take(&[0, 4]), Err(Errno::EINVAL));
    assert_eq!(indices(osts.take(&plan(4))), Ok(vec![0, 1, 2]), "nearly all are enough");
}

#[test]
fn objects_that_no_file_got_are_used_again() {
    let osts = osts(&[2, 0]);
    assert_eq!(osts.take(&plan(2)), Err(Errno::EAGAIN));
    let first = osts.take(&plan(1)).unwrap();
    assert_eq!(first[0].1.oid, 1);
    osts.give_back(&first);
    assert_eq!(osts.take(&plan(1)), Ok(first));
    assert_eq!(osts.take(&plan(1)).unwrap()[0].1.oid, 2);
    // Those of an earlier sequence are not.
    osts.give_back(&[(0, Fid { seq: SEQ - 1, oid: 1, version: 0 })]);
    assert_eq!(osts.take(&plan(1)), Err(Errno::EAGAIN));
}

#[test]
fn a_file_gets_osts_of_its_pool() {
    let osts = osts(&[9; 4]);
    osts.set_pools([("fast".to_owned(), [1, 3].into()), ("new".to_owned(), [].into())].into());
    let plan = |pool| Plan { first: None, pool: Text::new(pool), ..plan(0xffff) };
    assert_eq!(candidates(&osts, &plan("fast")), Ok((vec![1, 3], 2)));
    let at_three = Plan { first: Some(3), ..plan("fast") };
    assert_eq!(candidates(&osts, &at_three), Ok((vec![3, 1], 2)));
    let outside = Plan { first: Some(2), ..plan("fast") };
    assert_eq!(candidates(&osts, &outside), Err(Errno::EINVAL));
    // As in a kernel MDT, a pool without OSTs does not keep anybody from creating files.
    for other in ["new", "unknown"] {
        assert_eq!(candidates(&osts, &plan(other)), Ok((vec![0, 1, 2, 3], 4)), "{other}");
    }
    osts.set_pools([("fast".to_owned(), [7].into())].into());
    assert_eq!(candidates(&osts, &plan("fast")), Err(Errno::EINPROGRESS));
}

/// The removals of a large tree take minutes, and more come meanwhile.
#[test]
fn objects_are_created_while_there_are_removals() {
    let osts = osts(&[COUNT_MIN]);
    let ost = osts.get(0).unwrap();
    let mut state = ost.state();
    (state.count, state.has_tasks) = (COUNT_MIN, true);
    assert_eq!(state.next(true, true), Step::Clean);
    assert_eq!(state.next(false, true), Step::AskStatfs);
    assert_eq!(state.next(false, false), Step::SendTasks);
    state.used = COUNT_MIN / 2;
    assert_eq!(state.next(false, false), Step::Create);
    state.created += COUNT_MIN;
    assert_eq!(state.next(false, false), Step::SendTasks);
    state.has_tasks = false;
    assert_eq!(state.next(false, false), Step::Wait);
}
