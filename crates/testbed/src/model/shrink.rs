//! Fewer operations that fail in the same way.

use super::operation::{Operation, Step};

/// Returns few of the operations that fail still, after at most `tries` runs: no half, quarter and so on of them can be left
/// out, down to single ones; then they are by one client if that is enough, and shorter.
pub fn shrink(steps: &[Step], tries: usize, fails: &mut dyn FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut search = Search { steps: steps.to_vec(), tries, fails };
    let mut len = search.steps.len() / 2;
    while len > 0 {
        let is_shorter = search.leave_out(len);
        // What was needed for something that is left out now may go as well.
        if !(is_shorter && len == 1) {
            len /= 2;
        }
    }
    search.by_one_client();
    search.move_up();
    search.shorten();
    search.steps
}

struct Search<'a> {
    steps: Vec<Step>,
    tries: usize,
    fails: &'a mut dyn FnMut(&[Step]) -> bool,
}

impl Search<'_> {
    /// Goes on with other operations if they fail.
    fn takes(&mut self, other: Vec<Step>) -> bool {
        if self.tries == 0 || other == self.steps {
            return false;
        }
        self.tries -= 1;
        let fails = (self.fails)(&other);
        if fails {
            self.steps = other;
        }
        fails
    }

    /// Leaves out parts of this length, from the end on, as what comes late is needed by fewer.
    fn leave_out(&mut self, len: usize) -> bool {
        let (mut end, mut is_shorter) = (self.steps.len(), false);
        while end > 0 {
            let start = end.saturating_sub(len);
            let rest = [&self.steps[..start], &self.steps[end.min(self.steps.len())..]].concat();
            is_shorter |= self.takes(rest);
            end = start;
        }
        is_shorter
    }

    fn by_one_client(&mut self) {
        let all = self.steps.iter().map(|step| Step { client: 0, ..step.clone() }).collect();
        if self.takes(all) {
            return;
        }
        for place in 0..self.steps.len() {
            let mut other = self.steps.clone();
            other[place].client = 0;
            self.takes(other);
        }
    }

    /// Has what is in a directory be in that of the run, so that nothing needs to make the directory.
    fn move_up(&mut self) {
        let lines: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        let paths = lines.iter().flat_map(|line| line.split(' ').skip(2));
        let above = paths.filter_map(|path| path.rsplit_once('/').map(|(above, _)| above));
        let mut directories: Vec<&str> = above.filter(|above| above.starts_with('/')).collect();
        // Those that are inside others first.
        directories.sort_unstable_by_key(|directory| (usize::MAX - directory.len(), *directory));
        directories.dedup();
        for directory in directories {
            let moved = |step: &Step| {
                let line = step.to_string().replace(&format!(" {directory}/"), " /");
                line.parse().unwrap_or_else(|_| step.clone())
            };
            let other = self.steps.iter().map(moved).collect();
            if self.takes(other) {
                self.leave_out(1);
            }
        }
    }

    /// Makes what is written or read shorter.
    fn shorten(&mut self) {
        for place in 0..self.steps.len() {
            for divisor in [4096, 64, 4, 2] {
                let mut other = self.steps.clone();
                if let Operation::Write { len, .. } | Operation::Read { len, .. } =
                    &mut other[place].operation
                {
                    *len = (*len / divisor).max(1);
                }
                if self.takes(other) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_operations_that_fail_are_left() {
        let steps: Vec<Step> = (0..100u64)
            .map(|number| format!("{} write h0 {number} 9000 1", number % 3).parse().unwrap())
            .collect();
        let at = |step: &Step| match step.operation {
            Operation::Write { at, .. } => at,
            _ => 0,
        };
        let mut fails = |steps: &[Step]| {
            let has = |place| steps.iter().any(|step| at(step) == place);
            has(13) && has(77)
        };
        let few = shrink(&steps, 1000, &mut fails);
        let text: Vec<String> = few.iter().map(Step::to_string).collect();
        assert_eq!(text, ["0 write h0 13 2 1", "0 write h0 77 2 1"]);
        assert_eq!(shrink(&steps, 0, &mut fails).len(), 100);
        let text = "0 mkdir /d0 0755\n0 mkdir /d0/d1 0755\n0 unlink /d0/d1/f0\n0 stat /d0";
        let steps = super::super::operation::parse(text).unwrap();
        let mut fails = |steps: &[Step]| {
            let unlinks = |step: &Step| matches!(step.operation, Operation::Unlink { .. });
            let above =
                |step: &Step| step.to_string().rsplit_once('/').map(|(above, _)| above.to_owned());
            let made: Vec<String> = steps.iter().map(Step::to_string).collect();
            steps.iter().any(|step| {
                unlinks(step)
                    && above(step).is_some_and(|above| {
                        let (_, directory) = above.split_once('/').unwrap_or_default();
                        directory.is_empty()
                            || made
                                .iter()
                                .any(|line| line.contains(&format!("mkdir /{directory} ")))
                    })
            })
        };
        let few = shrink(&steps, 1000, &mut fails);
        assert_eq!(few.iter().map(Step::to_string).collect::<Vec<_>>(), ["0 unlink /f0"]);
    }
}
