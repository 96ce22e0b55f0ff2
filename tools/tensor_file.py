"""PyTorch tensors as safetensors files, without the library."""
import json, struct


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
