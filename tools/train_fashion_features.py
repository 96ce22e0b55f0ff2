"""Trains the classifier whose pooled features measure Fréchet distances on Fashion-MNIST.

usage: train_fashion_features.py OUT.safetensors [--epochs N] [--data DIR | --random] [--threads T] [--seed S]

A few minutes on two cores. Then, for the asset, pack_asset.py OUT.safetensors OUT.json crates/dyweight-models/assets/fashion_features.safetensors.
"""
import argparse, json, math

import torch
import torch.nn.functional as F
from torch import nn

import fashion_data, tensor_file

WIDTHS, POOLED = [32, 32, 64, 64, 128], (1, 3)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        for i, (inputs, outputs) in enumerate(zip([1] + WIDTHS, WIDTHS)):
            setattr(self, f"conv{i}", nn.Conv2d(inputs, outputs, 3, padding=1))
            setattr(self, f"norm{i}", nn.GroupNorm(8, outputs, eps=1e-5))
        self.head = nn.Linear(WIDTHS[-1], 10)

    def features(self, x):
        for i in range(len(WIDTHS)):
            x = F.silu(getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(x)))
            x = F.avg_pool2d(x, 2) if i in POOLED else x
        return x.mean((2, 3))

    def forward(self, x):
        return self.head(self.features(x))


def augmented(images):
    """Each image shifted by up to two pixels, half of them mirrored; the border is background."""
    padded = F.pad(images, (2, 2, 2, 2), value=-1.0)
    dy, dx = torch.randint(5, (2,)).tolist()
    shifted = padded[:, :, dy:dy + 28, dx:dx + 28]
    mirrored = torch.rand(len(images), 1, 1, 1) < 0.5
    return torch.where(mirrored, shifted.flip(3), shifted)


@torch.no_grad()
def accuracy(net, images, labels):
    right = sum((net(i).argmax(1) == l).sum().item() for i, l in zip(images.split(500), labels.split(500)))
    return right / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--data", default=fashion_data.DIRECTORY)
    parser.add_argument("--random", action="store_true", help="random images, to try the script")
    parser.add_argument("--limit", type=int, help="use this many images only")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    images, labels = fashion_data.random(512) if args.random else fashion_data.load("train", args.data)
    test = fashion_data.random(512) if args.random else fashion_data.load("t10k", args.data)
    images, labels = images[:args.limit], labels[:args.limit]
    net = Classifier()
    optimiser = torch.optim.Adam(net.parameters())
    total, done = args.epochs * math.ceil(len(images) / args.batch), 0
    for epoch in range(args.epochs):
        for chosen in torch.randperm(len(images)).split(args.batch):
            for group in optimiser.param_groups:
                group["lr"] = args.rate * 0.5 * (1 + math.cos(math.pi * done / total))
            loss = F.cross_entropy(net(augmented(images[chosen])), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += 1
        print(f"epoch {epoch} loss {loss.item():.3f} test accuracy {accuracy(net, *test):.4f}", flush=True)
    config = {"kind": "fashion-features", "test_accuracy": accuracy(net, *test), "epochs": args.epochs}
    tensor_file.save(args.out, net.state_dict(), {"config": json.dumps(config), "format": "pt"})
    with open(args.out.removesuffix(".safetensors") + ".json", "w") as out:
        json.dump(config, out, indent=1)


if __name__ == "__main__":
    main()
