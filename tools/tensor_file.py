"""PyTorch tensors as safetensors files, without the library."""
import json, struct

import torch


def save(path, tensors, metadata=None):
    header, blob = {"__metadata__": metadata} if metadata else {}, bytearray()
    for name, tensor in tensors.items():
        raw = tensor.detach().cpu().contiguous().float().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + blob)


def load(path):
    """The tensors of a file, in double precision."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        kind = {"F16": torch.float16, "F32": torch.float32}[entry["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(data[start:end]), dtype=kind).reshape(entry["shape"]).double()
    return tensors
