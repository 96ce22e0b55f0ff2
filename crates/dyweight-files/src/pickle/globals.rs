//! The names a pickle may mention, and what each stands for here.
//!
//! A name is never looked up, imported or run: it only tells how the values next to it are laid out. Whatever is not
//! listed is refused, so a new kind of file fails loudly instead of being half understood.

use crate::Dtype;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Object of the `torch_utils.persistence` scheme: class name, source text and attributes in one dictionary.
    Persistent,
    /// Dictionary that remembers its order; all ours do.
    OrderedDict,
    /// Tensor, wrapped with training flags.
    Parameter,
    /// View of a storage: (storage, offset, shape, strides, …).
    Tensor,
    /// Storage as a save stream within the pickle.
    StorageFromBytes,
    /// Container of network layers.
    Module,
    /// Module of a compiled network; its attributes are all in one dictionary.
    Script,
    /// List of integers.
    IntList,
    /// One number: (element type, bytes).
    NumpyScalar,
    /// Element type.
    NumpyDtype,
    /// Storage type.
    Storage(Dtype),
    /// May be applied to something; the result is of no interest.
    Ignored,
    /// May be mentioned, never applied.
    NameOnly,
}

impl Meaning {
    /// The meaning of a name, if it is allowed at all.
    pub(crate) fn of(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("torch_utils.persistence", "_reconstruct_persistent_obj") => Self::Persistent,
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_parameter") => Self::Parameter,
            ("torch._utils", "_rebuild_tensor_v2") => Self::Tensor,
            ("torch.storage", "_load_from_bytes") => Self::StorageFromBytes,
            ("torch.nn.modules.container", "ModuleDict" | "ModuleList" | "Sequential") => Self::Module,
            ("torch.jit._pickle", "build_intlist") => Self::IntList,
            ("numpy._core.multiarray" | "numpy.core.multiarray", "scalar") => Self::NumpyScalar,
            ("numpy", "dtype") => Self::NumpyDtype,
            ("torch", _) => Self::Storage(storage(name)?),
            // How protocol 2 spells the bytes of a numpy number.
            ("_codecs", "encode") => Self::Ignored,
            // Samplers mentioned by released coefficient files, and training callbacks by Stable Diffusion ones.
            ("solvers", _) => Self::NameOnly,
            _ if module.starts_with("pytorch_lightning.") => Self::NameOnly,
            _ if module == "__torch__" || module.starts_with("__torch__.") => Self::Script,
            _ => return None,
        })
    }

    /// True if it may be applied to arguments.
    pub(crate) fn reducible(self) -> bool {
        use Meaning::*;
        matches!(
            self,
            Persistent
                | OrderedDict
                | Parameter
                | Tensor
                | StorageFromBytes
                | IntList
                | NumpyScalar
                | NumpyDtype
                | Ignored
        )
    }

    /// True if it may be made without arguments and filled later.
    pub(crate) fn creatable(self) -> bool {
        matches!(self, Meaning::Module | Meaning::Script | Meaning::OrderedDict)
    }

    /// True if what it makes may be given a state.
    pub(crate) fn buildable(self) -> bool {
        matches!(self, Meaning::Module | Meaning::Script | Meaning::NumpyDtype)
    }
}

/// Element type of a torch storage class.
fn storage(name: &str) -> Option<Dtype> {
    Some(match name {
        "DoubleStorage" => Dtype::F64,
        "FloatStorage" => Dtype::F32,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::Bf16,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "CharStorage" => Dtype::I8,
        "ByteStorage" => Dtype::U8,
        "BoolStorage" => Dtype::Bool,
        _ => return None,
    })
}
