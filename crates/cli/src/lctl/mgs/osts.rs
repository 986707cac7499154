//! Lists of OSTs as `lctl pool_add` takes them.

/// The most OSTs of a list: all that a file system can have.
const OSTS_MAX: usize = 1 << 16;

/// Returns the names of OSTs: `OST0001`, `lv-OST0001` or `lv-OST0001_UUID`, where `[0-7/2,a]` stands for
/// hexadecimal indices, with a decimal step.
pub(super) fn osts(fsname: &str, given: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for text in given {
        for name in expanded(text)? {
            all.push(completed(fsname, &name)?);
        }
        if all.len() > OSTS_MAX {
            return Err(format!("{text} are too many OSTs"));
        }
    }
    Ok(all)
}

/// Returns the names that a text with `[...]` stands for.
fn expanded(text: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = text.split_once('[') else { return Ok(vec![text.to_owned()]) };
    let wrong = || format!("{text} is not a list such as OST[0-7/2,a]");
    let (set, after) = rest.split_once(']').ok_or_else(wrong)?;
    let mut names = Vec::new();
    for range in set.split(',') {
        let (range, step) = range.split_once('/').unwrap_or((range, "1"));
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let index = |text: &str| u16::from_str_radix(text, 16).map_err(|_| wrong());
        let (low, high) = (index(low)?, index(high)?);
        let step = step.parse::<usize>().ok().filter(|step| *step > 0).ok_or_else(wrong)?;
        if low > high {
            return Err(wrong());
        }
        let indices = (low..=high).step_by(step);
        names.extend(indices.map(|index| format!("{before}{index:04x}{after}")));
    }
    Ok(names)
}

/// Returns the whole name of an OST.
fn completed(fsname: &str, text: &str) -> Result<String, String> {
    let name = text.strip_suffix("_UUID").unwrap_or(text);
    let suffix = match name.split_once("OST") {
        Some(("", _)) => name,
        _ => name
            .strip_prefix(fsname)
            .and_then(|rest| rest.strip_prefix('-'))
            .ok_or_else(|| format!("{text} does not start with fsname {fsname}"))?,
    };
    let digits = suffix.strip_prefix("OST").unwrap_or_default();
    if digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        Ok(format!("{fsname}-{}", suffix.replace(digits, &digits.to_ascii_lowercase())))
    } else {
        Err(format!("{text} is not an OST such as {fsname}-OST0001"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_of_lctl() {
        let osts = |text: &str| {
            let given: Vec<String> = text.split(' ').map(str::to_owned).collect();
            osts("lv", &given).map(|names| names.join(" "))
        };
        assert_eq!(osts("OST0001 lv-OST000A_UUID").unwrap(), "lv-OST0001 lv-OST000a");
        let some = "lv-OST0000 lv-OST0002 lv-OST0004 lv-OST001f";
        assert_eq!(osts("lv-OST[0-5/2,1f]").unwrap(), some);
        assert_eq!(osts("OST[9-b]_UUID").unwrap(), "lv-OST0009 lv-OST000a lv-OST000b");
        for wrong in ["other-OST0000", "OST1", "OST[3-1]", "OST[0", "OST[0-5/0]", "lv-MDT0000", ""]
        {
            assert!(osts(wrong).is_err(), "{wrong}");
        }
    }
}
