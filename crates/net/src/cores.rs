//! The cores of this machine.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Returns the cores that this process may use.
pub fn usable_cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Returns the cores of each NUMA node, those that the process may use; of a machine that does not
/// report nodes, one node with all cores.
pub fn numa_nodes() -> Vec<Vec<usize>> {
    let usable = usable_cores();
    let of_node = |node: usize| {
        let list = fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"));
        list.ok().map(|list| cpu_list(&list))
    };
    let nodes = (0..).map_while(of_node);
    let nodes = nodes.map(|cores| cores.into_iter().filter(|core| usable.contains(core)).collect());
    let nodes: Vec<Vec<usize>> = nodes.collect();
    if nodes.is_empty() { vec![usable] } else { nodes }
}

/// Reads the kernel's form of a list: `0-3,8`.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("\n"), [0; 0]);
    }

    #[test]
    fn every_usable_core_is_of_one_node() {
        let mut cores: Vec<usize> = numa_nodes().concat();
        cores.sort_unstable();
        assert_eq!(cores, usable_cores());
        assert!(!cores.is_empty());
    }
}
