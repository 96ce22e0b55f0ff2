//! Safetensors, zip and numpy files: what is written comes back, and each way to be wrong has its error.

use crate::build::*;
use dyweight_core::error::Error;
use dyweight_files::Malformed;
use dyweight_files::{ArrayFile, Dtype, StoredTensor, TensorFile, parse_npy};
use std::path::PathBuf;

fn read(header: &str, data: &[u8]) -> Result<TensorFile, Malformed> {
    TensorFile::parse(safetensors(header, data).into())
}

fn read_npz(bytes: Vec<u8>) -> Result<ArrayFile, Malformed> {
    ArrayFile::parse(bytes.into())
}

fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dyweight-arrays-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn every_type() -> TensorFile {
    let mut file = TensorFile::default();
    file.metadata.insert("config".into(), "{\"cls\":\"EDMPrecond\"}".into());
    let mut put = |name: &str, tensor: Result<StoredTensor, Malformed>| {
        file.tensors.insert(name.into(), tensor.expect("fits"));
    };
    put("half", StoredTensor::from_f32_as_f16(&[3], &[0.5, 1.0, -2.0]));
    put("double", StoredTensor::from_f64(&[2, 1], &[f64::MIN_POSITIVE, -0.1]));
    put("single", StoredTensor::from_f32(&[], &[f32::NAN]));
    put("count", StoredTensor::from_i64(&[1], &[i64::MIN]));
    put("empty", StoredTensor::from_f64(&[0, 7], &[]));
    put("bytes", StoredTensor::new("bytes", Dtype::U8, vec![3], vec![1, 2, 255].into()));
    file
}

#[test]
fn safetensors_come_back_bit_by_bit_and_equal_contents_give_equal_bytes() {
    let file = every_type();
    let bytes = file.to_bytes();
    assert_eq!(bytes, every_type().to_bytes());
    assert_eq!(TensorFile::parse(bytes.clone().into()).as_ref(), Ok(&file));
    let path = temporary("a.safetensors");
    file.write(&path).expect("writes");
    assert_eq!(std::fs::read(&path).expect("readable"), bytes);
    assert_eq!(TensorFile::read(&path).expect("reads"), file);
    std::fs::remove_file(&path).expect("removes");
    assert!(matches!(TensorFile::read(&path), Err(Error::Io { action: "read", .. })));
    assert!(matches!(TensorFile::read(&std::env::temp_dir()), Err(Error::Io { action: "read", .. })));
    assert_eq!(file.tensor("single").map(|t| t.to_f64()[0].is_nan()), Ok(true));
}

#[test]
fn a_known_file_is_read_exactly() {
    let header = r#"{"__metadata__":{"a":"b"},"y":{"dtype":"I16","shape":[2],"data_offsets":[4,8]},
        "x":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"z":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}}"#;
    let file = read(header, &[0x80, 0x3f, 0x20, 0xc0, 1, 0, 0xff, 0xff, 2]).expect("sound");
    assert_eq!(file.metadata["a"], "b");
    assert_eq!(file.tensors["x"].to_f64(), [1.0, -2.5]);
    assert_eq!(file.tensors["y"].to_f32(), [1.0, -1.0]);
    assert_eq!(file.tensors["z"].to_f64(), [1.0]);
}

#[test]
fn each_malformed_safetensors_is_named() {
    let one = |fields: &str| read(&format!("{{\"a\":{{{fields}}}}}"), &[0; 8]);
    assert!(one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#).is_ok());
    assert!(matches!(one(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), Err(Malformed::ByteCount { .. })));
    assert!(matches!(one(r#""dtype":"F9","shape":[2],"data_offsets":[0,8]"#), Err(Malformed::Dtype { .. })));
    assert!(matches!(one(r#""dtype":"F32","shape":[2],"data_offsets":[0,9]"#), Err(Malformed::Range { .. })));
    assert!(matches!(one(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), Err(Malformed::Range { .. })));
    assert!(matches!(one(r#""dtype":"F32","shape":[1],"data_offsets":[4,8]"#), Err(Malformed::Gap { start: 0, .. })));
    assert!(matches!(one(r#""dtype":"F32","shape":[1],"data_offsets":[0,4]"#), Err(Malformed::Gap { start: 4, .. })));
    let huge = format!(r#""dtype":"F32","shape":[{0},{0}],"data_offsets":[0,8]"#, usize::MAX);
    assert!(matches!(one(&huge), Err(Malformed::ShapeOverflow { .. })));
    let hidden = format!(r#""dtype":"F32","shape":[{0},{0},0],"data_offsets":[0,0]"#, usize::MAX);
    assert!(one(&hidden).is_err());
    for json in [
        r#""dtype":"F32","shape":[-2],"data_offsets":[0,8]"#,
        r#""dtype":"F32","shape":[1.5],"data_offsets":[0,8]"#,
        r#""dtype":"F32","shape":[2]"#,
        r#""dtype":"F32","shape":[2],"data_offsets":[0,8,9]"#,
        r#""dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1"#,
        r#""dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]"#,
        r#""dtype":"F32","shape":"#,
    ] {
        assert!(matches!(one(json), Err(Malformed::Json { .. })), "{json}");
    }
    let entry = |name: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"U8","shape":[{}],"data_offsets":[{from},{to}]}}"#, to - from)
    };
    let two = |a: String, b: String| read(&format!("{{{a},{b}}}"), &[0; 8]);
    assert!(two(entry("a", 4, 8), entry("b", 0, 4)).is_ok());
    assert!(matches!(two(entry("a", 0, 5), entry("b", 4, 8)), Err(Malformed::Overlap { .. })));
    assert!(matches!(two(entry("a", 0, 4), entry("a", 4, 8)), Err(Malformed::Duplicate { .. })));
    let mut not_text = safetensors("{\"a\":1}", &[]);
    not_text[10] = 0xff;
    assert!(matches!(TensorFile::parse(not_text.into()), Err(Malformed::NotText { .. })));
    assert!(matches!(TensorFile::parse(u64::MAX.to_le_bytes().to_vec().into()), Err(Malformed::TooLarge { .. })));
    assert!(matches!(TensorFile::parse(vec![1, 2, 3].into()), Err(Malformed::Truncated { .. })));
    assert!(matches!(TensorFile::parse(network().into()), Err(Malformed::Format { .. })));
    assert!(matches!(TensorFile::parse(9u64.to_le_bytes().to_vec().into()), Err(Malformed::Truncated { .. })));
}

#[test]
fn numpy_archives_are_read_stored_deflated_and_column_major() {
    let file = read_npz(npz()).expect("sound");
    assert_eq!(file.array("mu").map(StoredTensor::to_f64), Ok(vec![1.0, 2.0]));
    assert_eq!(file.array("sigma").map(StoredTensor::to_f64), Ok(vec![1.0, 3.0, 2.0, 4.0]));
    assert!(matches!(file.array("nu"), Err(Malformed::Missing { .. })));
}

#[test]
fn numpy_files_come_back() {
    let mut file = ArrayFile::default();
    file.arrays.insert("mu".into(), StoredTensor::from_f64(&[3], &[1.0, -2.0, 1e300]).expect("fits"));
    file.arrays.insert("count".into(), StoredTensor::from_i64(&[], &[5]).expect("fits"));
    file.arrays.insert("sigma".into(), StoredTensor::from_f32(&[2, 1], &[1.0, 0.5]).expect("fits"));
    let path = temporary("a.npz");
    file.write(&path).expect("writes");
    assert_eq!(ArrayFile::read(&path).expect("reads"), file);
    std::fs::remove_file(&path).expect("removes");
    let unknown = StoredTensor::new("x", Dtype::Bf16, vec![1], vec![0, 0].into()).expect("fits");
    file.arrays.insert("odd".into(), unknown);
    assert!(file.write(&path).is_err());
    assert!(!path.exists());
}

#[test]
fn each_malformed_numpy_header_is_named() {
    let parse = |header: &str, values: &[f64]| parse_npy(&npy(header, values).into());
    assert!(parse("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", &[1.0]).is_ok());
    assert!(parse("{\"shape\":(1L,),\"fortran_order\":True,\"descr\":\"=f8\"}", &[1.0]).is_ok());
    for header in [
        "",
        "{}",
        "{'descr': '<f8', 'fortran_order': Maybe, 'shape': ()}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,}",
        "{'descr': '<f8', 'descr': '<f8', 'shape': ()}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (), 'x': 1}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
    ] {
        assert!(matches!(parse(header, &[1.0]), Err(Malformed::Header { .. })), "{header}");
    }
    let kind = |descr: &str| parse(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ()}}"), &[1.0]);
    assert!(matches!(kind(">f8"), Err(Malformed::BigEndian)));
    assert!(matches!(kind("|O"), Err(Malformed::Dtype { .. })));
    assert!(matches!(kind("<f4"), Err(Malformed::ByteCount { .. })));
    let huge = "{'descr': '<f8', 'fortran_order': True, 'shape': (4294967296, 4294967296)}";
    assert!(matches!(parse(huge, &[]), Err(Malformed::ShapeOverflow { .. })));
    assert!(matches!(parse_npy(&b"\x93NUMPX\x01\0".to_vec().into()), Err(Malformed::Format { .. })));
    for version in [b"\x93NUMPY\x09\0", b"\x93NUMPY\x01\x03"] {
        assert!(matches!(parse_npy(&version.to_vec().into()), Err(Malformed::Header { .. })));
    }
    assert!(matches!(parse_npy(&b"\x93NUMPY\x02\0\xff\xff\xff\xff".to_vec().into()), Err(Malformed::TooLarge { .. })));
}

/// An archive with one byte string of its directory or headers replaced.
fn patched(mut bytes: Vec<u8>, at: usize, with: &[u8]) -> Result<ArrayFile, Malformed> {
    bytes[at..at + with.len()].copy_from_slice(with);
    read_npz(bytes)
}

#[test]
fn each_malformed_archive_is_named() {
    let sound = npz();
    let directory = sound.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    let second = sound.windows(4).rposition(|w| w == b"PK\x01\x02").expect("a directory");
    let end = sound.len() - 22;
    let patch = |at: usize, with: &[u8]| patched(sound.clone(), at, with);
    assert!(matches!(patch(end, b"X"), Err(Malformed::NoZipDirectory)));
    assert!(matches!(read_npz(Vec::new()), Err(Malformed::Format { found: "an empty file", .. })));
    assert!(matches!(read_npz(network()), Err(Malformed::Format { found: "a Python pickle", .. })));
    assert!(matches!(patch(end + 10, &[9, 0]), Err(Malformed::ZipRecord { what: "directory", .. })));
    assert!(matches!(patch(end + 12, &[0xff; 3]), Err(Malformed::ZipRecord { what: "directory", .. })));
    assert!(matches!(patch(end + 12, &[0xff; 8]), Err(Malformed::ZipRecord { what: "directory", .. })));
    assert!(matches!(patch(directory, b"X"), Err(Malformed::ZipRecord { what: "directory record", .. })));
    assert!(matches!(patch(0, b"X"), Err(Malformed::Format { .. })));
    assert!(matches!(patch(directory + 42, &[1]), Err(Malformed::ZipRecord { what: "local header", .. })));
    assert!(matches!(patch(30, b"X"), Err(Malformed::ZipRecord { what: "local header", .. })));
    assert!(matches!(patch(directory + 16, &[0; 4]), Err(Malformed::Checksum { .. })));
    assert!(matches!(patch(directory + 8, &[9]), Err(Malformed::ZipMethod { .. })));
    assert!(matches!(patch(directory + 10, &[99]), Err(Malformed::ZipMethod { .. })));
    // A stored member must be as long packed as unpacked; and no longer than the file.
    assert!(matches!(patch(directory + 20, &[1, 0, 0, 0]), Err(Malformed::ZipRecord { .. })));
    assert!(matches!(patch(directory + 20, &[0xfe; 8]), Err(Malformed::Range { .. })));
    // The second member is deflated: to another size than promised, or to more than is sensible.
    assert!(matches!(patch(second + 24, &[1, 0, 0, 0]), Err(Malformed::Inflate { .. })));
    assert!(matches!(patch(second + 24, &[0, 1, 0, 0]), Err(Malformed::Inflate { .. })));
    assert!(matches!(patch(second + 24, &[0xff, 0xff, 0xff, 0x7f]), Err(Malformed::TooLarge { .. })));
    // Both records point at the first member.
    let named_alike = archive(&[Member::stored("a.npy", b"1"), Member::stored("b.npy", b"2")]);
    let record = named_alike.windows(4).rposition(|w| w == b"PK\x01\x02").expect("a directory");
    let mut overlapping = named_alike.clone();
    overlapping[record + 42..record + 46].copy_from_slice(&[0; 4]);
    overlapping[record + 46] = b'a';
    assert!(matches!(read_npz(overlapping), Err(Malformed::Overlap { .. })));
    let twice = archive(&[Member::stored("a.npy", b"1"), Member::stored("a.npy", b"2")]);
    assert!(matches!(read_npz(twice), Err(Malformed::Duplicate { .. })));
    let name = named_alike.windows(5).position(|w| w == b"a.npy").expect("a name");
    let mut not_text = named_alike.clone();
    not_text[name] = 0xff;
    let central = named_alike.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    not_text[central + 46] = 0xff;
    assert!(matches!(read_npz(not_text), Err(Malformed::NotText { .. })));
}

#[test]
fn a_member_may_not_reach_into_the_directory() {
    let bytes = archive(&[Member::stored("a.npy", b"1234")]);
    let record = bytes.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    let longer = [8, 0, 0, 0, 8, 0, 0, 0];
    assert!(matches!(patched(bytes, record + 20, &longer), Err(Malformed::Overlap { .. })));
}

#[test]
fn archives_with_64_bit_records_are_read() {
    let mu = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", &[4.0]);
    let mut bytes = archive(&[Member::stored("mu.npy", &mu)]);
    let record = bytes.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    let end = bytes.len() - 22;
    let tail = bytes.split_off(end);
    let mut directory = bytes.split_off(record);
    // Sizes and offset move to the extra field.
    let size = mu.len() as u64;
    directory[20..28].fill(0xff);
    directory[42..46].fill(0xff);
    directory[30] = 28;
    directory.extend([1, 0, 24, 0]);
    directory.extend([size, size, 0].iter().flat_map(|v| v.to_le_bytes()));
    let start = bytes.len() as u64;
    bytes.extend(&directory);
    let end64 = bytes.len() as u64;
    bytes.extend(b"PK\x06\x06");
    bytes.extend(44u64.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend([1, 1, directory.len() as u64, start].iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(end64.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(tail);
    let len = bytes.len();
    bytes[len - 14..len - 2].fill(0xff);
    assert_eq!(read_npz(bytes.clone()).expect("sound").array("mu").map(StoredTensor::to_f64), Ok(vec![4.0]));
    bytes[end64 as usize] = 0;
    assert!(matches!(read_npz(bytes), Err(Malformed::ZipRecord { what: "64-bit end record", .. })));
}
