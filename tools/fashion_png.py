"""Fashion-MNIST as a folder of PNG files, to make the embedded reference.

usage: fashion_png.py OUT --part train|t10k [--data DIR]        (needs numpy and pillow)

    fashion_png.py train --part train
    dyweight metric stats train --features fashion --name "Fashion-MNIST, training images" --out crates/dyweight-metrics/assets/fashion_reference.npz

The images are those of Debian's package dataset-fashion-mnist (Xiao, Rasul and Vollgraf 2017, MIT licence), 28×28 grey, byte for
byte; names are the numbers of the images.
"""
import argparse, gzip, os

import numpy as np
from PIL import Image

DIRECTORY = "/usr/share/datasets/fashion-mnist"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--part", choices=["train", "t10k"], required=True)
    parser.add_argument("--data", default=DIRECTORY)
    args = parser.parse_args()
    with gzip.open(os.path.join(args.data, args.part + "-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    for index, image in enumerate(images):
        folder = os.path.join(args.out, f"{index - index % 1000:06d}")
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(image).save(os.path.join(folder, f"{index:06d}.png"))
    print(f"{len(images)} images")


if __name__ == "__main__":
    main()
