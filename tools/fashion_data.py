"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017, MIT licence) as tensors, from the files of Debian's dataset-fashion-mnist."""
import gzip, os

import torch

DIRECTORY = "/usr/share/datasets/fashion-mnist"


def _read(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def load(part, directory=DIRECTORY):
    """Images [n, 1, 28, 28] in [-1, 1] and labels [n] of `train` or `t10k`."""
    path = os.path.join(directory, part)
    if not os.path.exists(path + "-images-idx3-ubyte.gz"):
        raise SystemExit(f"no Fashion-MNIST in {directory}: apt-get install dataset-fashion-mnist, or give --data")
    images = _read(path + "-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).float() / 127.5 - 1
    return images, _read(path + "-labels-idx1-ubyte.gz", 8).long()


def random(n):
    """Something of the right shape, to try a script without the data."""
    return torch.rand(n, 1, 28, 28) * 2 - 1, torch.randint(10, (n,))
