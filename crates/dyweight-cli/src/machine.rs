//! The machine this runs on, as far as the system says.

use dyweight::models::instruction_set;

/// The most memory the process has had at once (Linux).
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The processor's name (Linux).
pub fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = info.lines().find_map(|l| l.strip_prefix("model name"))?.trim_start_matches([' ', '\t', ':']);
    Some(name.trim().into())
}

/// Programs that wanted a core in the last minute, on average (Linux).
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Cores that may be used.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processor, cores, instruction set and system in one line.
pub fn described() -> String {
    let processor = processor().unwrap_or_else(|| std::env::consts::ARCH.into());
    format!("{processor}, {} cores, {}, {}", cores(), instruction_set(), std::env::consts::OS)
}

/// Processor time the process has used (Linux): to a hundredth of a second.
pub fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything, user and system time are the 12th and 13th field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
