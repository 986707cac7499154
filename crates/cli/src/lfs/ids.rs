//! Users and groups by the names that the files of this system give them.

/// The file of users.
pub(super) const USERS: &str = "/etc/passwd";
/// The file of groups.
pub(super) const GROUPS: &str = "/etc/group";

/// Returns the number of a user or a group that a file of the system names, or that is a number itself.
pub(super) fn number(file: &str, text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = rows(file).find(|(name, _)| name == text).map(|(_, number)| number);
    found.ok_or(format!("{file} has no {text}: give a number"))
}

/// Returns the name of a user or a group; its number if the file has none.
pub(super) fn name(file: &str, number: u32) -> String {
    let found = rows(file).find(|(_, known)| *known == number);
    found.map_or_else(|| number.to_string(), |(name, _)| name)
}

/// Returns the names of a file with their numbers.
fn rows(file: &str) -> impl Iterator<Item = (String, u32)> {
    let table = std::fs::read_to_string(file).unwrap_or_default();
    let row = |line: &str| {
        let mut fields = line.split(':');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
    };
    table.lines().filter_map(row).collect::<Vec<_>>().into_iter()
}
