//! Interrupts of a device, and the CPUs that handle them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{entries, read};

/// An interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its name, given by the driver.
    pub name: String,
    /// The CPUs that may handle it, as a list such as `0-3,8`.
    pub affinity: Option<String>,
    /// The CPU that handled most of them; `None` if none occurred.
    pub busiest: Option<u32>,
    /// How many occurred.
    pub count: u64,
}

/// Returns the interrupts of a device, by its name and its directory in `/sys/class/net`.
pub(super) fn of(name: &str, base: &Path) -> Vec<Interrupt> {
    let Some(text) = read("/proc/interrupts") else { return Vec::new() };
    let mut numbers: Vec<u32> = entries(base.join("device/msi_irqs"))
        .iter()
        .filter_map(|number| number.parse().ok())
        .collect();
    if numbers.is_empty() {
        // The interrupts of a virtio device belong to its parent.
        let parent = entries(base.join("device/../msi_irqs"));
        numbers = parent.iter().filter_map(|number| number.parse().ok()).collect();
    }
    let mut found = parse(&text, &numbers, name);
    for interrupt in &mut found {
        let path = format!("/proc/irq/{}/smp_affinity_list", interrupt.number);
        interrupt.affinity = read(path);
    }
    found
}

/// Parses `/proc/interrupts`: returns those with one of these numbers, or named after the device.
fn parse(text: &str, numbers: &[u32], device: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let processors = lines.next().unwrap_or_default().split_whitespace().count();
    let lines = lines.filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let number: u32 = number.trim().parse().ok()?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let name = *words.last()?;
        let named = name.split(['-', '@', ',']).any(|part| part == device);
        if !named && !numbers.contains(&number) {
            return None;
        }
        let counts = words.iter().take(processors).map_while(|word| word.parse().ok());
        let counts: Vec<u64> = counts.collect();
        let busiest = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        let busiest = busiest.filter(|(_, count)| **count > 0).map(|(cpu, _)| cpu as u32);
        let count = counts.iter().sum();
        Some(Interrupt { number, name: name.to_owned(), affinity: None, busiest, count })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_found_by_number_and_by_name() {
        let text = "           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 31:          7        900  PCI-MSIX-0000:00:03.0   0-edge      mlx5_comp0@pci:0000:00:03.0
 32:         80          0  PCI-MSIX-0000:00:04.0   1-edge      eth1-rx-0
NMI:          0          0   Non-maskable interrupts";
        let found = parse(text, &[31], "eth1");
        let seen: Vec<_> = found.iter().map(|one| (one.number, one.busiest, one.count)).collect();
        assert_eq!(seen, [(31, Some(1), 907), (32, Some(0), 80)]);
        assert_eq!(found[1].name, "eth1-rx-0");
    }
}
