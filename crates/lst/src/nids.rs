//! Lists of NIDs in the syntax of `lst`. Spec: lnet-selftest §15.6.
//!
//! Numbers in brackets stand for each of them: `192.168.1.[2,10-12]@tcp`, `10.0.[0-6/2].1@o2ib`.

use fulmar_lnet_wire::Nid;
use thiserror::Error;

/// The largest number of NIDs in one list: as many as fit into one request to the node.
const NIDS_MAX: usize = 16_384;

/// Why a list is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ListError {
    #[error("Syntax error in \"{0}\"")]
    Syntax(String),
    #[error("Invalid nid: {0}")]
    Nid(String),
}

impl ListError {
    /// Returns a remedy.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Syntax(_) => format!(
                "write numbers in brackets, such as 10.0.0.[1,4-6,8-12/2]@tcp, for at most \
                 {NIDS_MAX} nodes"
            ),
            Self::Nid(text) => match text.parse::<Nid>() {
                Ok(_) => "selftest supports only NIDs with 4-byte addresses".into(),
                Err(error) => error.to_string(),
            },
        }
    }
}

/// Returns the NIDs of a list; the leftmost brackets vary slowest.
///
/// # Errors
/// Whether the brackets or a NID are invalid.
pub(super) fn expand(list: &str) -> Result<Vec<Nid>, ListError> {
    let texts = expand_text(list).ok_or_else(|| ListError::Syntax(list.to_owned()))?;
    texts.iter().map(|text| nid(text)).collect()
}

fn nid(text: &str) -> Result<Nid, ListError> {
    let nid = text.parse::<Nid>().ok().filter(|nid| nid.to_small().is_some());
    nid.ok_or_else(|| ListError::Nid(text.to_owned()))
}

fn expand_text(list: &str) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    let mut rest = list;
    while let Some((plain, behind)) = rest.split_once('[') {
        let (set, after) = behind.split_once(']')?;
        let numbers = numbers(set).filter(|_| !plain.contains(']'))?;
        if texts.len().checked_mul(numbers.len())? > NIDS_MAX {
            return None;
        }
        let with = |text: &String| {
            let text = text.clone() + plain;
            numbers.iter().map(move |number| format!("{text}{number}"))
        };
        texts = texts.iter().flat_map(with).collect();
        rest = after;
    }
    if rest.contains(']') {
        return None;
    }
    texts.iter_mut().for_each(|text| *text += rest);
    Some(texts)
}

/// Returns the numbers of a set such as `2,10-12,20-30/5`.
fn numbers(set: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for item in set.split(',') {
        let (range, stride) = match item.split_once('/') {
            Some((range, stride)) => (range, number(stride).filter(|stride| *stride > 0)?),
            None => (item, 1),
        };
        match range.split_once('-') {
            Some((low, high)) => {
                let (low, high) = (number(low)?, number(high)?);
                if low >= high || (high - low) / stride >= NIDS_MAX as u32 {
                    return None;
                }
                all.extend((low..=high).step_by(stride as usize));
            }
            None if range == item => all.push(number(item)?),
            None => return None,
        }
    }
    (all.len() <= NIDS_MAX).then_some(all)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_stand_for_numbers() {
        for (list, nids) in [
            ("192.168.1.9@tcp", "192.168.1.9@tcp"),
            (
                "192.168.1.[2-9/2]@tcp",
                "192.168.1.2@tcp 192.168.1.4@tcp 192.168.1.6@tcp 192.168.1.8@tcp",
            ),
            (
                "192.168.1.[2,10-12]@tcp1",
                "192.168.1.2@tcp1 192.168.1.10@tcp1 192.168.1.11@tcp1 192.168.1.12@tcp1",
            ),
            ("10.0.[1-2].[1-2]@o2ib", "10.0.1.1@o2ib 10.0.1.2@o2ib 10.0.2.1@o2ib 10.0.2.2@o2ib"),
            ("10.0.0.[007]@tcp", "10.0.0.7@tcp"),
            ("10.0.0.1@tcp[1-2]", "10.0.0.1@tcp1 10.0.0.1@tcp2"),
        ] {
            let expanded: Vec<String> =
                expand(list).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(expanded.join(" "), nids, "{list}");
        }
        let strided = expand("192.168.1.[240-253/2]@o2ib").unwrap();
        assert_eq!((strided.len(), strided[6].to_string().as_str()), (7, "192.168.1.252@o2ib"));
    }

    #[test]
    fn invalid_lists_are_reported() {
        for list in [
            "10.0.0.[2-1]@tcp",
            "10.0.0.[1-1]@tcp",
            "10.0.0.[1-5/0]@tcp",
            "10.0.0.[1/2]@tcp",
            "10.0.0.[]@tcp",
            "10.0.0.[1",
            "10.0.0.1]@tcp",
            "10.0.0.[+1]@tcp",
            "10.0.0.[*]@tcp",
            "10.[0-255].[0-255].1@tcp",
            "10.0.0.[0-4294967295]@tcp",
        ] {
            assert_eq!(expand(list), Err(ListError::Syntax(list.into())), "{list}");
        }
        for (list, nid) in [
            ("10.0.0.[255-256]@tcp", "10.0.0.256@tcp"),
            ("10.0.0.1,10.0.0.2@tcp", "10.0.0.1,10.0.0.2@tcp"),
            ("2001:db8::1@tcp", "2001:db8::1@tcp"),
            ("nowhere", "nowhere"),
            ("", ""),
        ] {
            assert_eq!(expand(list), Err(ListError::Nid(nid.into())), "{list}");
        }
    }
}
