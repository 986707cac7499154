//! CPU partitions (CPTs): groups of cores. Spec: lnet-admin §18.2.

use super::diagnostic::{Diagnostic, Source, Text};
use super::module_strings::split_outside;
use super::parameters::{Module, Parameters};
use super::pattern::number_list;

/// The cores of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// The cores that the process may use.
    pub usable: Vec<usize>,
    /// The cores of each NUMA node.
    pub nodes: Vec<Vec<usize>>,
}

/// A parsed `cpu_pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// `0[0-3] 1[4-7]`: the cores of each CPT.
    Cores(Vec<Vec<usize>>),
    /// `N 0[0,1] 1[2,3]`: the NUMA nodes of each CPT.
    Nodes(Vec<Vec<usize>>),
    /// `N`: a CPT for each NUMA node.
    EachNode,
}

impl Pattern {
    pub(crate) fn parse(text: Text<'_>) -> Result<Self, Diagnostic> {
        let words = split_outside(text, char::is_whitespace)?;
        let mut words = words.into_iter().filter(|word| !word.s.is_empty()).peekable();
        let nodes = words.next_if(|word| word.s == "N").is_some();
        let mut cpts = Vec::new();
        for word in words {
            let Some(open) = word.s.find('[') else {
                let error = word.error("a CPT is a number and a list: 0[0-3]");
                return Err(error.with_help(FORMS));
            };
            let number = word.range(0..open).number("CPT", 0, i64::from(NUMBER_MAX))?;
            if usize::try_from(number) != Ok(cpts.len()) {
                let error = word.error(format!("CPT {number} does not follow CPT {}", cpts.len()));
                return Err(error.with_help("number the CPTs from 0, in order"));
            }
            let members = number_list(word.from(open), NUMBER_MAX)?;
            cpts.push(members.into_iter().map(|member| member as usize).collect::<Vec<_>>());
        }
        if let Some(twice) = repeated(&cpts) {
            return Err(text.error(format!("{twice} is in two CPTs")));
        }
        match (nodes, cpts.is_empty()) {
            (true, true) => Ok(Self::EachNode),
            (true, false) => Ok(Self::Nodes(cpts)),
            (false, false) => Ok(Self::Cores(cpts)),
            (false, true) => Err(text.error("no CPT").with_help(FORMS)),
        }
    }
}

impl Parameters {
    /// Returns the cores of each CPT; none if CPTs are not configured.
    ///
    /// # Errors
    /// If the machine does not have a core or a node.
    pub fn cpts(&self, machine: &Cores) -> Result<Vec<Vec<usize>>, String> {
        let text = |name| {
            let of = |module| self.text(module, name).filter(|text| !text.is_empty());
            of(Module::Lnet).or_else(|| of(Module::Libcfs))
        };
        let count = text("cpu_npartitions").and_then(|text| text.parse().ok()).unwrap_or(0);
        let pattern = text("cpu_pattern").map(|text| {
            let source = Source::new("cpu_pattern", text);
            Pattern::parse(source.whole()).map_err(|error| error.to_string())
        });
        let cpts = match pattern.transpose()? {
            None => return divided(&machine.usable, count),
            Some(Pattern::Cores(cpts)) => cpts,
            Some(Pattern::EachNode) => machine.nodes.clone(),
            Some(Pattern::Nodes(cpts)) => {
                let cores = |node: &usize| {
                    let known = machine.nodes.get(*node);
                    known.ok_or_else(|| format!("cpu_pattern: there is no NUMA node {node}"))
                };
                let joined = |nodes: &Vec<usize>| {
                    let all = nodes.iter().map(cores).collect::<Result<Vec<_>, _>>()?;
                    Ok(all.into_iter().flatten().copied().collect())
                };
                cpts.iter().map(joined).collect::<Result<Vec<_>, String>>()?
            }
        };
        let unknown = cpts.iter().flatten().find(|core| !machine.usable.contains(core));
        match unknown {
            Some(core) => Err(format!(
                "cpu_pattern: core {core} is not one that this process may use: {:?}",
                machine.usable
            )),
            None => Ok(cpts),
        }
    }

    /// Returns the configured number of I/O threads of each CPT, if any.
    pub fn nscheds(&self) -> Option<usize> {
        let count = self.number(Module::Ksocklnd, "nscheds").filter(|count| *count > 0)?;
        Some(usize::try_from(count).unwrap_or(usize::MAX).min(THREADS_MAX))
    }
}

/// Divides cores into `count` CPTs of neighbours.
fn divided(cores: &[usize], count: usize) -> Result<Vec<Vec<usize>>, String> {
    match count {
        0 => Ok(Vec::new()),
        _ if count > cores.len() => {
            Err(format!("cpu_npartitions={count}: there are {} cores", cores.len()))
        }
        _ => {
            let start = |cpt: usize| cpt * cores.len() / count;
            Ok((0..count).map(|cpt| cores[start(cpt)..start(cpt + 1)].to_vec()).collect())
        }
    }
}

fn repeated(lists: &[Vec<usize>]) -> Option<usize> {
    let mut all: Vec<usize> = lists.iter().flatten().copied().collect();
    all.sort_unstable();
    all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

const FORMS: &str = "write N for one CPT per NUMA node, \"0[0-3] 1[4-7]\" for lists of cores, \
                     \"N 0[0] 1[1,2]\" for lists of NUMA nodes";
/// The largest number of a core or a CPT.
const NUMBER_MAX: u32 = 65_535;
/// The most threads of a CPT.
const THREADS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Cores {
        let nodes = vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]];
        Cores { usable: (0..8).collect(), nodes }
    }

    fn cpts(module: Module, name: &str, value: &str) -> Result<Vec<Vec<usize>>, String> {
        let (name, value) = (Source::new("", name), Source::new("", value));
        let mut parameters = Parameters::default();
        let set = parameters.set(module, name.whole(), value.whole());
        set.map_err(|error| error.to_string())?;
        parameters.cpts(&machine())
    }

    #[test]
    fn patterns_name_cores_or_nodes() {
        let pattern = |text| cpts(Module::Libcfs, "cpu_pattern", text);
        assert_eq!(pattern("0[0-2,7] 1[4]"), Ok(vec![vec![0, 1, 2, 7], vec![4]]));
        assert_eq!(pattern("N"), Ok(machine().nodes));
        assert_eq!(pattern("N 0[2] 1[0,1]"), Ok(vec![vec![6, 7], (0..6).collect()]));
        assert_eq!(pattern(""), Ok(vec![]), "not configured");
    }

    #[test]
    fn a_number_divides_the_cores() {
        let count = |text| cpts(Module::Lnet, "cpu_npartitions", text);
        assert_eq!(count("0"), Ok(vec![]));
        assert_eq!(count("3"), Ok(vec![vec![0, 1], vec![2, 3, 4], vec![5, 6, 7]]));
        assert!(count("9").unwrap_err().contains("8 cores"));
    }

    #[test]
    fn errors_name_the_problem() {
        let errors = [
            ("0[0-2] 2[3]", "does not follow"),
            ("0[0-2] 1[2]", "in two CPTs"),
            ("0-3", "a number and a list"),
            ("0[8]", "core 8"),
            ("N 0[3]", "NUMA node 3"),
            ("0[0", "never closed"),
        ];
        for (pattern, expected) in errors {
            let error = cpts(Module::Lnet, "cpu_pattern", pattern).unwrap_err();
            assert!(error.contains(expected), "{pattern}: {error}");
        }
    }
}
