//! Which OSTs a file gets.

use fulmar_lustre_wire::Text;
use fulmar_store::Policy;

use super::*;

/// The OSTs 0 to 3 of an MDT.
fn osts() -> Arc<Osts> {
    let store = Store::memory(b"", Policy::default());
    let osts = Osts::load(&store, 0).unwrap();
    (0..4).for_each(|index| drop(osts.get_or_add(index, Used::default())));
    osts.set_pools([("fast".to_owned(), [1, 3].into()), ("new".to_owned(), [].into())].into());
    osts
}

fn plan(pool: &str) -> Plan {
    let pool = Some(Text::new(pool).unwrap()).filter(|_| !pool.is_empty());
    Plan { stripe_size: 1 << 20, stripe_count: u16::MAX, first: None, osts: vec![], pool }
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
fn a_file_gets_osts_of_its_pool() {
    let osts = osts();
    assert_eq!(candidates(&osts, &plan("fast")), Ok((vec![1, 3], 2)));
    let at_three = Plan { first: Some(3), ..plan("fast") };
    assert_eq!(candidates(&osts, &at_three), Ok((vec![3, 1], 2)));
    let outside = Plan { first: Some(2), ..plan("fast") };
    assert_eq!(candidates(&osts, &outside), Err(Errno::EINVAL));
    // As in a kernel MDT, a pool without OSTs does not keep anybody from creating files.
    for other in ["", "new", "unknown"] {
        assert_eq!(candidates(&osts, &plan(other)), Ok((vec![0, 1, 2, 3], 4)), "{other}");
    }
    osts.set_pools([("fast".to_owned(), [7].into())].into());
    assert_eq!(candidates(&osts, &plan("fast")), Err(Errno::EINPROGRESS));
}
