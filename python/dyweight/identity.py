"""What something is, by its content: for results that are kept and must not be taken for those of something else."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any


#: Weights of up to so many numbers are taken as a whole.
WHOLE = 1_000_000


def digest(*values: Any) -> str:
    """A short name for the content of all values: tensors, arrays, pictures, containers and whatever is plain."""
    found = hashlib.sha256()
    for value in values:
        _feed(found, value)
    return found.hexdigest()[:24]


def _feed(found: Any, value: Any) -> None:
    found.update(type(value).__name__.encode() + b"\0")
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        found.update(repr(value).encode())
    elif isinstance(value, bytes):
        found.update(value)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            _feed(found, key)
            _feed(found, value[key])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            _feed(found, item)
    else:
        _feed_array(found, value)


def _feed_array(found: Any, value: Any) -> None:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        found.update(f"{value.dtype} {tuple(value.shape)}".encode())
        found.update(value.contiguous().flatten().view(_bytes_of(value)).numpy().tobytes())
    elif hasattr(value, "tobytes"):
        found.update(f"{getattr(value, 'shape', getattr(value, 'size', ''))} {getattr(value, 'mode', '')}".encode())
        found.update(value.tobytes())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _feed(found, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    else:
        raise TypeError(f"{type(value).__name__} cannot be told by its content: leave the cache out, or pass something plain")


def _bytes_of(tensor: Any) -> Any:
    import torch

    return torch.uint8 if tensor.element_size() else tensor.dtype


def weights(pipe: Any) -> list[Any]:
    """Every weight: small ones whole, of large ones names, shapes and some values."""
    return [(name, _sketch(part)) for name, part in sorted(parts(pipe).items())]


def networks(pipe: Any) -> list[Any]:
    """The same of the networks that a solver belongs to: decoders and text encoders may be exchanged."""
    apart = ("vae", "encoder", "safety", "vocoder", "image_processor")
    return [(name, sketch) for name, sketch in weights(pipe) if not any(word in name for word in apart)]


def parts(pipe: Any) -> dict[str, Any]:
    """The networks of a pipeline."""
    import torch

    named = getattr(pipe, "components", None) or vars(pipe)
    return {name: part for name, part in named.items() if isinstance(part, torch.nn.Module)}


def _sketch(network: Any) -> list[Any]:
    """Of each weight its content, of one beyond a million numbers its shape and some values, evenly."""
    found = []
    for name, value in network.state_dict().items():
        if not hasattr(value, "flatten") or getattr(value, "is_meta", False):
            found.append((name, str(getattr(value, "shape", ""))))
            continue
        if value.numel() <= WHOLE:
            found.append((name, digest(value)))
            continue
        flat = value.detach().flatten()
        stride = flat.numel() // 256
        found.append((name, tuple(value.shape), [str(v) for v in flat[::stride][:257].cpu().tolist()]))
    return found


def settings(pipe: Any) -> list[Any]:
    """What a pipeline is set to beside its weights: plain values of its configuration, and strengths of its adapters."""
    plain = {k: v for k, v in dict(getattr(pipe, "config", {})).items() if isinstance(v, (bool, int, float, str))}
    modules = (module for part in parts(pipe).values() for module in part.modules())
    strengths = [dict(m.scaling) for m in modules if isinstance(getattr(m, "scaling", None), dict)]
    return [{k: v for k, v in plain.items() if not k.startswith("_")}, strengths, adapters(pipe)]


def adapters(pipe: Any) -> list[str]:
    """Names of the adapters (LoRA) that the pipeline's networks are loaded with."""
    names: set[str] = set()
    for part in parts(pipe).values():
        names.update(map(str, getattr(part, "peft_config", None) or {}))
    return sorted(names)
