//! Each way in which a file can be wrong has a name.

use dyweight_core::error::{Problem, printable as clean};

/// What is wrong with the bytes of a file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The file ends too early.
    #[error("truncated: {needed} more bytes needed at offset {offset}")]
    Truncated {
        /// Where the missing bytes should start.
        offset: usize,
        /// How many are missing, at least.
        needed: usize,
    },
    /// The file goes on where it should end.
    #[error("{count} bytes too many after the end of the {what}")]
    Trailing {
        /// What ended.
        what: &'static str,
        /// How many bytes follow.
        count: usize,
    },
    /// Another kind of file.
    #[error("expected {expected}, found {found}")]
    Format {
        /// What the reader reads.
        expected: &'static str,
        /// What the bytes look like.
        found: &'static str,
    },
    /// Something larger than any sound file has.
    #[error("{what}: {size} is more than the limit of {limit}")]
    TooLarge {
        /// The thing counted.
        what: &'static str,
        /// How many or how large it would be.
        size: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// Containers inside containers beyond reason, or without end.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// How deep is allowed.
        limit: usize,
    },
    /// Bytes that should be text are not.
    #[error("{what} at offset {offset} is not UTF-8 text")]
    NotText {
        /// The text.
        what: &'static str,
        /// Where it starts.
        offset: usize,
    },
    /// Text that should be JSON is not, or has the wrong fields.
    #[error("{what}: {}", clean(.reason))]
    Json {
        /// The document.
        what: &'static str,
        /// What the parser said.
        reason: String,
    },
    /// A header that cannot be understood.
    #[error("{what}: cannot understand '{}'", clean(.found))]
    Header {
        /// The header or field.
        what: &'static str,
        /// As much of it as helps.
        found: String,
    },
    /// Two entries of one name.
    #[error("'{}' is there twice", clean(.name))]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An entry that must be there is not.
    #[error("'{}' is missing", clean(.name))]
    Missing {
        /// The entry.
        name: String,
    },
    /// An entry of another type than it must have.
    #[error("'{}' should be {expected}, but is {found}", clean(.name))]
    Type {
        /// The entry.
        name: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An element type that is not supported.
    #[error("element type '{}' is not supported", clean(.name))]
    Dtype {
        /// The type as written in the file.
        name: String,
    },
    /// A tensor's number of entries does not fit in memory at all.
    #[error("shape {shape:?} has more entries than can be counted")]
    ShapeOverflow {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A tensor's shape and its bytes do not agree.
    #[error("'{}': its shape needs {expected} bytes, the file has {found}", clean(.name))]
    ByteCount {
        /// The tensor.
        name: String,
        /// Bytes by shape and element type.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// A range that leaves the file, or ends before it starts.
    #[error("'{}': bytes {start}..{end} are not within the {len} bytes there are", clean(.name))]
    Range {
        /// The tensor or member.
        name: String,
        /// First byte.
        start: u64,
        /// After the last byte.
        end: u64,
        /// Bytes there are.
        len: u64,
    },
    /// Two entries claim the same bytes.
    #[error("'{}' starts at byte {start}, inside another entry that ends at {end}", clean(.name))]
    Overlap {
        /// The second of the two.
        name: String,
        /// Where it starts.
        start: u64,
        /// Where the other ends.
        end: u64,
    },
    /// Bytes that belong to no tensor.
    #[error("{len} bytes at {start} belong to no tensor")]
    Gap {
        /// First such byte.
        start: u64,
        /// How many.
        len: u64,
    },
    /// A pickle instruction that is unknown or not supported.
    #[error("pickle instruction {opcode:#04x} at offset {offset} is not supported")]
    Opcode {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        offset: usize,
    },
    /// A pickle instruction that finds too little, or the wrong thing, on the stack.
    #[error("pickle instruction {opcode:#04x} at offset {offset} has nothing to work on")]
    Operand {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        offset: usize,
    },
    /// A pickle that refers to a remembered value which is not there.
    #[error("pickle refers to remembered value {index} at offset {offset}, which does not exist")]
    Memo {
        /// Number of the value.
        index: usize,
        /// Where the reference stands.
        offset: usize,
    },
    /// A name that could be code, and is not one of the few this program gives a meaning to.
    #[error("refers to '{}.{}', which is not allowed", clean(.module), clean(.name))]
    ForbiddenGlobal {
        /// Python module.
        module: String,
        /// Name in the module.
        name: String,
    },
    /// An allowed name, used in a way that would run code.
    #[error("calls '{}.{}', which is not allowed", clean(.module), clean(.name))]
    ForbiddenCall {
        /// Python module.
        module: String,
        /// Name in the module.
        name: String,
    },
    /// Numbers in an order of bytes that is not supported.
    #[error("written by a big-endian machine")]
    BigEndian,
    /// A tensor refers to numbers that are not in the file.
    #[error("storage '{}' is missing", clean(.key))]
    MissingStorage {
        /// Its name.
        key: String,
    },
    /// A store of numbers of another size than declared.
    #[error("storage '{}' should hold {expected} bytes, but holds {found}", clean(.key))]
    StorageSize {
        /// Its name.
        key: String,
        /// Bytes by declaration.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A tensor that reaches outside its store of numbers.
    #[error("shape {shape:?} with strides {strides:?} from {offset} leaves a storage of {len} entries")]
    View {
        /// Shape of the tensor.
        shape: Vec<usize>,
        /// Distance of neighbours along each axis, in entries.
        strides: Vec<usize>,
        /// First entry.
        offset: usize,
        /// Entries there are.
        len: usize,
    },
    /// A zip archive without its directory.
    #[error("the zip directory is missing")]
    NoZipDirectory,
    /// A zip record that contradicts another, or cannot be.
    #[error("zip {what} at offset {offset} is damaged")]
    ZipRecord {
        /// Which record.
        what: &'static str,
        /// Where it should be.
        offset: u64,
    },
    /// A zip member packed in a way that is not supported.
    #[error("zip member '{}' uses {how}, which is not supported", clean(.name))]
    ZipMethod {
        /// The member.
        name: String,
        /// Encryption, or the number of the compression method.
        how: String,
    },
    /// A zip member that does not unpack to what the directory promises.
    #[error("zip member '{}' does not unpack to its {size} bytes", clean(.name))]
    Inflate {
        /// The member.
        name: String,
        /// Size by the directory.
        size: u64,
    },
    /// Bytes changed since they were written.
    #[error("zip member '{}' has checksum {found:08x}, its directory says {expected:08x}", clean(.name))]
    Checksum {
        /// The member.
        name: String,
        /// By the directory.
        expected: u32,
        /// By the bytes.
        found: u32,
    },
    /// Values that are each fine, but do not go together.
    #[error("{}", clean(.problem))]
    Inconsistent {
        /// Which, and why not.
        problem: String,
    },
}

impl Problem for Malformed {
    fn hint(&self) -> Option<String> {
        use Malformed::*;
        let hint = match self {
            Truncated { .. } | NoZipDirectory | MissingStorage { .. } => "the download or copy may be incomplete",
            Checksum { .. } | Inflate { .. } | ZipRecord { .. } => "the file is damaged: fetch it again",
            ForbiddenGlobal { .. } | ForbiddenCall { .. } => {
                "nothing was executed; do not load this file elsewhere unless you trust who made it"
            }
            BigEndian => "save the file again on a little-endian machine",
            Dtype { .. } => "supported: f64, f32, f16, bf16, i64, i32, i16, i8, u8, bool",
            ZipMethod { .. } => "save again without compression or encryption",
            Opcode { .. } => "save again with pickle protocol 2 to 4",
            _ => return None,
        };
        Some(hint.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_no_control_characters_and_stay_short() {
        let name = format!("a\u{1b}[31m{}", "x".repeat(1000));
        let message = Malformed::Duplicate { name }.to_string();
        assert!(message.starts_with("'a\\u{1b}[31mxxx"), "{message}");
        assert!(message.len() < 200 && message.ends_with("x…' is there twice"), "{message}");
    }
}
