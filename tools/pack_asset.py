"""Packs trained weights as an asset: kernels in half precision, configuration in the metadata entry `config`.

usage: pack_asset.py WEIGHTS.safetensors CONFIG.json OUT.safetensors

Standard library only. Kernels and matrices are rounded to the nearest half (ties to even). Vectors (biases, gains) and the
layers that embed noise level and label (`map_*`) stay f32: they are 2 % of the bytes and, rounded, most of the error.
"""
import array, json, struct, sys


def load(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: {name} is {entry['dtype']}, expected F32")
        start, end = entry["data_offsets"]
        numbers = array.array("f")
        numbers.frombytes(data[8 + size + start:8 + size + end])
        tensors[name] = (entry["shape"], numbers)
    return tensors


def is_half(name, shape):
    return len(shape) > 1 and "map_" not in name


def save(path, tensors, config):
    header, blob = {"__metadata__": {"config": json.dumps(config), "format": "pt"}}, bytearray()
    # f32 first, so that every tensor is aligned to its element size.
    for name, (shape, numbers) in sorted(tensors.items(), key=lambda item: (is_half(item[0], item[1][0]), item[0])):
        start, half = len(blob), is_half(name, shape)
        blob += struct.pack(f"<{len(numbers)}{'e' if half else 'f'}", *numbers)
        header[name] = {"dtype": "F16" if half else "F32", "shape": shape, "data_offsets": [start, len(blob)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + blob)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    weights, config, out = sys.argv[1:]
    save(out, load(weights), json.load(open(config)))
