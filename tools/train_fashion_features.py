"""Trains the classifier whose pooled features measure Fréchet distances on Fashion-MNIST.

usage: train_fashion_features.py OUT.safetensors [--epochs N] [--data DIR | --random] [--threads T] [--seed S]

A few minutes on two cores. Then, for the asset, pack_asset.py OUT.safetensors OUT.json crates/dyweight-models/assets/fashion_features.safetensors.
"""
import torch
import torch.nn.functional as F
from torch import nn

import fashion_classifier

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


def main():
    args = fashion_classifier.options(__doc__, epochs=5)
    train_set, test_set = fashion_classifier.data(args)
    net = Classifier()
    fashion_classifier.train(net, augmented, args, train_set, test_set)
    accuracy = fashion_classifier.accuracy(net, *test_set)
    config = {"kind": "fashion-features", "test_accuracy": accuracy, "epochs": args.epochs}
    fashion_classifier.save(args.out, net.state_dict(), config)


if __name__ == "__main__":
    main()
