//! Files made to harm: every reader ends with an error, fast and in little memory.
//!
//! One test and one program, because it watches the peak memory of the whole process.

mod build;

use build::*;
use dyweight_files::Malformed;
use dyweight_files::{ArrayFile, NetworkFile, OfficialCoefficients, TensorFile, TorchFile, parse_npy};
use std::time::{Duration, Instant};

/// For one file, whatever it is.
const MAX_TIME: Duration = Duration::from_secs(1);
/// For all of them, the program included.
const MAX_MEGABYTES: u64 = 100;

type Outcome = Result<(), Malformed>;
type Reader = fn(Vec<u8>) -> Outcome;

fn network_reader(bytes: Vec<u8>) -> Outcome {
    NetworkFile::parse(bytes.into()).map(|_| ())
}

fn torch_reader(bytes: Vec<u8>) -> Outcome {
    TorchFile::parse(bytes.into()).map(|_| ())
}

fn tensor_reader(bytes: Vec<u8>) -> Outcome {
    TensorFile::parse(bytes.into()).map(|_| ())
}

fn array_reader(bytes: Vec<u8>) -> Outcome {
    ArrayFile::parse(bytes.into()).map(|_| ())
}

/// A pickle of a network whose state is what `fill` pushes.
fn with_state(fill: impl FnOnce(Pickle) -> Pickle) -> Vec<u8> {
    Pickle::new(4).dict(|p| p.text("ema").persistent("Net", fill)).stop()
}

/// `[x, x]` of `[y, y]` of `[z, z]` …, each remembered once.
fn list_bomb() -> Vec<u8> {
    let levels = |p: Pickle| {
        let start = p.raw(b"]q\x00K\x01a");
        (0..60u8).fold(start, |p, i| p.raw(&[b']', b'q', i + 1, b'(', b'h', i, b'h', i, b'e']))
    };
    with_state(|p| p.text("_init_kwargs").dict(|p| p.text("x").tuple(levels)))
}

/// Modules with two children each, both the same.
fn module_bomb(tensor: bool) -> Vec<u8> {
    let module = |p: Pickle, fill: &dyn Fn(Pickle) -> Pickle| {
        let p = p.global("torch.nn.modules.container", "ModuleDict").raw(b")\x81");
        p.dict(fill).raw(b"b")
    };
    let levels = |p: Pickle| {
        let leaf = |p: Pickle| {
            if tensor { p.text("_buffers").dict(|p| p.text("t").tensor(&[1], &[1.0])) } else { p }
        };
        let start = module(p.text("0"), &leaf).raw(b"q\x00");
        (0..40u8).fold(start, |p, i| {
            let children =
                |p: Pickle| p.text("_modules").dict(|p| p.text("a").raw(&[b'h', i]).text("b").raw(&[b'h', i]));
            module(p.text(&format!("{}", i + 1)), &children).raw(&[b'q', i + 1])
        })
    };
    with_state(|p| p.text("_modules").dict(levels))
}

/// A module that is its own child, twice.
fn module_cycle() -> Vec<u8> {
    let p = Pickle::new(4).raw(b"}(").text("ema");
    let p = p.global("torch_utils.persistence", "_reconstruct_persistent_obj").raw(b"}q\x00\x85Rq\x01");
    let p = p
        .text("inner")
        .raw(b"h\x00(")
        .text("class_name")
        .text("Net")
        .text("state")
        .dict(|p| p.text("_modules").dict(|p| p.text("a").raw(b"h\x01").text("b").raw(b"h\x01")));
    p.raw(b"uu.").0
}

/// A list that holds itself, as an option.
fn list_cycle() -> Vec<u8> {
    with_state(|p| p.text("_init_kwargs").dict(|p| p.text("x").raw(b"]q\x00(h\x00h\x00e")))
}

/// A dictionary that holds itself, as a state dictionary.
fn dict_cycle() -> Vec<u8> {
    let data = Pickle::new(2).raw(b"}q\x00(").text("a").raw(b"h\x00").text("b").raw(b"h\x00u").stop();
    archive(&[Member::stored("x/data.pkl", &data)])
}

/// Many tensors on one storage of a megabyte.
fn shared_storage_bomb() -> Vec<u8> {
    let stream = float_stream(&vec![1.0; 1 << 18]);
    let tensors = |p: Pickle| {
        let first = p.text("0").view(|p| p.stream(&stream).raw(b"q\x00"), 0, &[1 << 18], &[1]);
        (1..2000).fold(first, |p, i| p.text(&i.to_string()).view(|p| p.raw(b"h\x00"), 0, &[1 << 18], &[1]))
    };
    with_state(|p| p.text("_buffers").dict(tensors))
}

/// One long name in front of many.
fn name_bomb() -> Vec<u8> {
    let stream = float_stream(&[1.0]);
    let tensors = |p: Pickle| {
        let first = p.text("0").view(|p| p.stream(&stream).raw(b"q\x00"), 0, &[1], &[1]);
        (1..2000).fold(first, |p, i| p.text(&i.to_string()).view(|p| p.raw(b"h\x00"), 0, &[1], &[1]))
    };
    let module = |p: Pickle| {
        let p = p.text(&"n".repeat(1 << 20)).global("torch.nn.modules.container", "ModuleDict").raw(b")\x81");
        p.dict(|p| p.text("_buffers").dict(tensors)).raw(b"b")
    };
    with_state(|p| p.text("_modules").dict(module))
}

/// A stream of `count` times the same instructions after a protocol header.
fn repeated(instructions: &[u8], count: usize) -> Vec<u8> {
    Pickle::new(4).raw(&instructions.repeat(count)).stop()
}

/// Lists within lists: opened first, then put into each other.
fn nested_lists(count: usize) -> Vec<u8> {
    Pickle::new(4).raw(&b"]".repeat(count)).raw(&b"a".repeat(count - 1)).stop()
}

fn zip_bomb() -> Vec<u8> {
    let zeros = vec![0; 30 << 20];
    archive(&[Member::deflated("a.npy", &zeros), Member::deflated("b.npy", &zeros)])
}

/// The longest header that is read, of the smallest entries.
fn header_bomb() -> Vec<u8> {
    let mut header = String::from("{");
    for i in 0.. {
        header.push_str(&format!("\"{i}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}},"));
        if header.len() > (8 << 20) - 200 {
            break;
        }
    }
    header.push_str("\"x\":{}}");
    safetensors(&header, &[])
}

fn random_bytes(len: usize) -> Vec<u8> {
    let mut state = 88172645463325252u64;
    (0..len).map(|_| next(&mut state) as u8).collect()
}

/// Xorshift: repeatable, and good enough to break files.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Highest resident memory of this process so far, where the system tells.
fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? / 1024)
}

fn expect_error(name: &str, reader: Reader, bytes: Vec<u8>) {
    let start = Instant::now();
    let outcome = reader(bytes);
    let (time, peak) = (start.elapsed(), peak_megabytes());
    println!(
        "{name}: {time:?}, peak {peak:?} MB, {}",
        outcome.as_ref().err().map(ToString::to_string).unwrap_or_default()
    );
    assert!(outcome.is_err(), "{name} was accepted");
    assert!(time < MAX_TIME, "{name} took {time:?}");
    assert!(peak.is_none_or(|p| p < MAX_MEGABYTES), "{name}: {peak:?} MB");
}

#[test]
fn bombs_are_cheap() {
    expect_error("list bomb", network_reader, list_bomb());
    expect_error("module bomb", network_reader, module_bomb(true));
    expect_error("module bomb without tensors", network_reader, module_bomb(false));
    expect_error("module cycle", network_reader, module_cycle());
    expect_error("list cycle", network_reader, list_cycle());
    expect_error("dictionary cycle", torch_reader, dict_cycle());
    expect_error("shared storage", network_reader, shared_storage_bomb());
    expect_error("long names", network_reader, name_bomb());
    expect_error("marks", network_reader, repeated(b"(", 1 << 20));
    expect_error("tuples in tuples", network_reader, Pickle::new(4).raw(b"N").raw(&[0x85; 1 << 20]).stop());
    expect_error("lists in lists", network_reader, nested_lists(1 << 19));
    expect_error("too many values", network_reader, repeated(b")", 4 << 20));
    expect_error(
        "too many instructions",
        network_reader,
        Pickle::new(4).raw(b"N\x94").raw(&b"h\0".repeat(5 << 20)).stop(),
    );
    expect_error("remembered often", network_reader, Pickle::new(4).raw(b"N").raw(&b"\x94".repeat(5 << 20)).stop());
    expect_error("remembered far away", network_reader, Pickle::new(4).raw(b"Nr\xff\xff\xff\xff").stop());
    expect_error("zip bomb", array_reader, zip_bomb());
    expect_error("header bomb", tensor_reader, header_bomb());
    expect_error("deep header", tensor_reader, safetensors(&"[".repeat(1 << 20), &[]));
    let noise = random_bytes(1 << 20);
    for (name, reader) in READERS {
        expect_error(&format!("random bytes as {name}"), reader, noise.clone());
        expect_error(&format!("nothing as {name}"), reader, Vec::new());
    }
    for (name, reader, sound) in sound_files() {
        assert_eq!(reader(sound.clone()), Ok(()), "{name}");
        every_truncation(name, reader, &sound);
        many_mutations(name, reader, &sound);
    }
    println!("peak {:?} MB", peak_megabytes());
    assert!(peak_megabytes().is_none_or(|p| p < MAX_MEGABYTES));
}

/// All readers by name.
const READERS: [(&str, Reader); 6] = [
    ("network", network_reader),
    ("coefficients", |bytes| OfficialCoefficients::parse(bytes.into()).map(|_| ())),
    ("torch", torch_reader),
    ("safetensors", tensor_reader),
    ("npz", array_reader),
    ("npy", |bytes| parse_npy(&bytes.into()).map(|_| ())),
];

/// A sound file for each reader.
fn sound_files() -> Vec<(&'static str, Reader, Vec<u8>)> {
    let header = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
    vec![
        ("network", READERS[0].1, network()),
        ("coefficients", READERS[1].1, coefficients()),
        ("torch archive", READERS[2].1, torch_archive()),
        ("legacy torch", READERS[2].1, torch_legacy()),
        ("safetensors", READERS[3].1, safetensors(header, &[0; 8])),
        ("npz", READERS[4].1, npz()),
        ("npy", READERS[5].1, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", &[1.0, 2.0])),
    ]
}

fn every_truncation(name: &str, reader: Reader, sound: &[u8]) {
    for len in 0..sound.len() {
        assert!(reader(sound[..len].to_vec()).is_err(), "{name} of {len} bytes was accepted");
    }
}

/// Changed bits, bytes and 32-bit fields: an error or another value, never a panic, never slow.
fn many_mutations(name: &str, reader: Reader, sound: &[u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let start = Instant::now();
    for _ in 0..20_000 {
        let mut bytes = sound.to_vec();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = next(&mut state) as usize % bytes.len();
            match next(&mut state) % 4 {
                0 => bytes[at] ^= 1 << (next(&mut state) % 8),
                1 => bytes[at] = next(&mut state) as u8,
                2 => bytes[at..].iter_mut().take(4).for_each(|b| *b = 0xff),
                _ => drop(bytes.remove(at)),
            }
        }
        let one = Instant::now();
        let _ = reader(bytes);
        assert!(one.elapsed() < MAX_TIME, "{name}");
    }
    println!("{name}: 20000 mutations in {:?}", start.elapsed());
}
