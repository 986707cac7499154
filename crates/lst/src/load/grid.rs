//! Parser of `--sweep`: `concurrency=1..64x2,size=4k,64k,1M`.
//!
//! ```text
//! grid  = axis { "," axis }
//! axis  = ("concurrency" | "size") "=" item { "," item }
//! item  = VALUE | VALUE ".." VALUE ("x" FACTOR | "+" STEP)
//! ```

use std::fmt;
use std::str::FromStr;

use fulmar_text::{Range, Step};
use thiserror::Error;

use super::plan::{CONCURRENCY_MAX, size};

/// The values of each setting; empty for a setting that does not vary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) sizes: Vec<u32>,
    pub(super) concurrencies: Vec<u32>,
}

/// One point of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) size: Option<u32>,
    pub(super) concurrency: Option<u32>,
}

/// The position of an error in a grid, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {mistake}")]
pub(super) struct GridError {
    column: usize,
    mistake: String,
}

/// The largest number of points of a grid.
const POINTS_MAX: usize = 1024;

impl Grid {
    /// Returns all points: all concurrencies of the first size, then those of the next.
    pub(super) fn points(&self) -> Vec<Point> {
        let axis = |values: &[u32]| match values {
            [] => vec![None],
            values => values.iter().copied().map(Some).collect(),
        };
        let concurrencies = axis(&self.concurrencies);
        let row = |size| {
            concurrencies.iter().map(move |concurrency| Point { size, concurrency: *concurrency })
        };
        axis(&self.sizes).into_iter().flat_map(row).collect()
    }
}

impl FromStr for Grid {
    type Err = GridError;

    fn from_str(text: &str) -> Result<Self, GridError> {
        let (mut grid, mut axis, mut column) = (Self::default(), None, 1);
        for piece in text.split(',') {
            let (at, item) = match piece.split_once('=') {
                None => (column, piece),
                Some((name, item)) => {
                    let next =
                        Axis::named(name).map_err(|mistake| GridError { column, mistake })?;
                    if !grid.values(next).is_empty() {
                        let mistake = format!("{name} is given twice: put its values together");
                        return Err(GridError { column, mistake });
                    }
                    axis = Some(next);
                    (column + name.chars().count() + 1, item)
                }
            };
            let wrong = |mistake| GridError { column: at, mistake };
            let axis = axis.ok_or_else(|| {
                wrong(format!("{piece:?} has no name: write concurrency= or size= before it"))
            })?;
            let more = axis.item(item).map_err(wrong)?;
            let values = grid.values(axis);
            if let Some(again) = more.iter().find(|value| values.contains(value)) {
                return Err(wrong(format!("{} is given twice", axis.text(*again))));
            }
            values.extend(more);
            if grid.points().len() > POINTS_MAX {
                return Err(wrong(format!("the grid has more than {POINTS_MAX} points")));
            }
            column += piece.chars().count() + 1;
        }
        Ok(grid)
    }
}

impl Grid {
    fn values(&mut self, axis: Axis) -> &mut Vec<u32> {
        match axis {
            Axis::Size => &mut self.sizes,
            Axis::Concurrency => &mut self.concurrencies,
        }
    }
}

#[derive(Clone, Copy)]
enum Axis {
    Size,
    Concurrency,
}

impl Axis {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "size" => Ok(Self::Size),
            "concurrency" => Ok(Self::Concurrency),
            _ => Err(format!("cannot sweep {name:?}: use concurrency or size")),
        }
    }

    fn value(self, text: &str) -> Result<u32, String> {
        match self {
            Self::Size => size(text),
            Self::Concurrency => match text.parse() {
                Ok(value) if (1..=CONCURRENCY_MAX).contains(&i64::from(value)) => Ok(value),
                _ => Err(format!(
                    "{text:?} is not a valid concurrency: write 1 to {CONCURRENCY_MAX}"
                )),
            },
        }
    }

    fn text(self, value: u32) -> String {
        match self {
            Self::Size => Size(value).to_string(),
            Self::Concurrency => value.to_string(),
        }
    }

    /// Parses one value or a range of values.
    fn item(self, text: &str) -> Result<Vec<u32>, String> {
        let Some(Range { low, high, step }) = Range::split(text) else {
            return Ok(vec![self.value(text)?]);
        };
        let step = step.ok_or_else(|| {
            format!(
                "{text:?} has no step: write {text}x2 to multiply by 2, or {text}+{low} to \
                 add {low}"
            )
        })?;
        let (low, high) = (self.value(low)?, self.value(high)?);
        if low > high {
            let (low, high) = (self.text(low), self.text(high));
            return Err(format!("{low}..{high} is descending: write {high}..{low}"));
        }
        let step = match step {
            Step::Times(factor) => Step::Times(times(factor)?),
            Step::Plus(more) => Step::Plus(self.value(more)?.into()),
        };
        // None is larger than the last one.
        Ok(step.values(low.into(), high.into()).map(|value| value as u32).collect())
    }
}

fn times(text: &str) -> Result<u64, String> {
    let factor = text.parse().ok().filter(|factor| *factor >= 2);
    factor.ok_or_else(|| format!("{text:?} is not a valid factor: write 2 or more"))
}

/// A number of bytes in the syntax of the command line: `4k`, `1M`, `1000`.
pub(super) struct Size(pub(super) u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{}M", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{}k", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size.map(|size| format!("size {}", Size(size)));
        let concurrency = self.concurrency.map(|number| format!("concurrency {number}"));
        let parts: Vec<String> = size.into_iter().chain(concurrency).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists_are_parsed() {
        let grid: Grid = "concurrency=1..64x2,size=4k,64k,1M".parse().unwrap();
        assert_eq!(grid.concurrencies, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(grid.sizes, [4096, 65536, 1 << 20]);
        assert_eq!(grid.points().len(), 21);
        assert_eq!(grid.points()[7], Point { size: Some(65536), concurrency: Some(1) });
        let grid: Grid = "size=4k..1Mx16,concurrency=3,8..20+6".parse().unwrap();
        assert_eq!(
            (grid.sizes, grid.concurrencies),
            (vec![4096, 65536, 1 << 20], vec![3, 8, 14, 20])
        );
        let grid: Grid = "concurrency=5..100x3".parse().unwrap();
        assert_eq!(grid.concurrencies, [5, 15, 45]);
        assert_eq!(grid.points()[0], Point { size: None, concurrency: Some(5) });
    }

    #[test]
    fn errors_have_a_column_and_a_remedy() {
        for (text, error) in [
            ("1..4x2", "column 1: \"1..4x2\" has no name: write concurrency= or size= before it"),
            ("concurrency=1,width=2", "column 15: cannot sweep \"width\": use concurrency or size"),
            (
                "size=4k,1..4",
                "column 9: \"1..4\" has no step: write 1..4x2 to multiply by 2, or 1..4+1 to \
                 add 1",
            ),
            (
                "size=4k,,8k",
                "column 9: \"\" is not a valid size: write bytes, such as 4096, 64k or 1M",
            ),
            ("concurrency=8..2x2", "column 13: 8..2 is descending: write 2..8"),
            ("concurrency=1..8x1", "column 13: \"1\" is not a valid factor: write 2 or more"),
            ("concurrency=2000", "column 13: \"2000\" is not a valid concurrency: write 1 to 1024"),
            ("size=4k,4k", "column 9: 4k is given twice"),
            ("size=4k,size=8k", "column 9: size is given twice: put its values together"),
            ("concurrency=1..1024+1,size=4k,8k", "column 31: the grid has more than 1024 points"),
        ] {
            assert_eq!(text.parse::<Grid>().unwrap_err().to_string(), error);
        }
    }
}
