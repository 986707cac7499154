//! What an administrator has set for good for a target, as it was read last: it holds from the start on, also
//! when the management service is away.

use fulmar_client::Setting;
use fulmar_store::{Store, StoreError};

use crate::join::JOINED;

const KEY: &[u8] = b"settings";

/// Returns what was read last.
pub(crate) fn load(store: &Store) -> Result<Vec<Setting>, StoreError> {
    let stored = store.get(JOINED, KEY)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&stored);
    Ok(text.lines().filter_map(parse).collect())
}

/// Keeps what was read.
pub(crate) fn save(store: &Store, settings: &[Setting]) -> Result<(), StoreError> {
    let line = |one: &Setting| {
        let sign = if one.is_for_all { '*' } else { ' ' };
        format!("{sign}{}={}\n", one.name, one.value)
    };
    let text: String = settings.iter().map(line).collect();
    let mut transaction = store.begin();
    transaction.put(JOINED, KEY, text.into_bytes());
    transaction.apply()?;
    store.commit().map(drop)
}

/// Returns what is to be set after a change: what is new, and what overrides it.
pub(crate) fn changed(before: &[Setting], after: &[Setting]) -> Vec<Setting> {
    let is_new = |one: &Setting| !before.contains(one);
    let names: Vec<&str> = after.iter().filter(|one| is_new(one)).map(|one| &*one.name).collect();
    after.iter().filter(|one| names.contains(&&*one.name)).cloned().collect()
}

fn parse(line: &str) -> Option<Setting> {
    let (sign, rest) = line.split_at_checked(1)?;
    let (name, value) = rest.split_once('=')?;
    let (name, value) = (name.to_owned(), value.to_owned());
    Some(Setting { name, value, is_for_all: sign == "*" })
}

#[cfg(test)]
mod tests {
    use fulmar_store::Policy;

    use super::*;

    fn setting(name: &str, value: &str, is_for_all: bool) -> Setting {
        Setting { name: name.to_owned(), value: value.to_owned(), is_for_all }
    }

    #[test]
    fn what_was_read_is_kept() {
        let store = Store::memory(b"OST", Policy::default());
        assert_eq!(load(&store).unwrap(), []);
        let all = [setting("at_max", "300", false), setting("mdt.*.root_squash", "9:9", true)];
        save(&store, &all).unwrap();
        assert_eq!(load(&store).unwrap(), all);
    }

    #[test]
    fn a_new_value_does_not_override_what_comes_later() {
        let before = [setting("a", "1", false), setting("b", "1", false), setting("a", "3", true)];
        assert_eq!(changed(&before, &before), []);
        let mut after = before.clone();
        after[0].value = "2".to_owned();
        assert_eq!(changed(&before, &after), [after[0].clone(), after[2].clone()]);
        assert_eq!(changed(&before, &after[1..2]), []);
    }
}
