"""Trains the classifier that judges what was trained on the features of the other one (train_fashion_features.py).

usage: train_fashion_judge.py OUT.safetensors [--epochs N] [--data DIR | --random] [--threads T] [--seed S]

Another architecture (residual, two scales, ReLU, batch normalisation) and another augmentation (turned, scaled, moved, contrast,
a patch erased; no mirroring), so that the two networks agree on images and not on each other's faults. Batch normalisation is
folded into the convolutions. About ten minutes on two cores. Then, for the asset and its reference images,
pack_asset.py OUT.safetensors OUT.json crates/dyweight-models/assets/fashion_judge.safetensors.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

import fashion_classifier

# name, inputs, outputs, kernel, stride
LAYERS = [("stem", 1, 48, 5, 2), ("fine1", 48, 48, 3, 1), ("fine2", 48, 48, 3, 1),
          ("down", 48, 96, 3, 2), ("coarse1", 96, 96, 3, 1), ("coarse2", 96, 96, 3, 1)]


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        for name, inputs, outputs, kernel, stride in LAYERS:
            conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
            setattr(self, name, nn.Sequential(conv, nn.BatchNorm2d(outputs)))
        self.head = nn.Linear(48 + 96, 10)

    def features(self, x):
        x = F.relu(self.stem(x))
        fine = F.relu(x + self.fine2(F.relu(self.fine1(x))))
        x = F.relu(self.down(fine))
        coarse = F.relu(x + self.coarse2(F.relu(self.coarse1(x))))
        return torch.cat([fine.mean((2, 3)), coarse.mean((2, 3))], 1)

    def forward(self, x):
        return self.head(F.dropout(self.features(x), 0.1, self.training))

    def folded(self):
        """Weight and bias of every layer, with the statistics of its batch normalisation inside."""
        tensors = {"head.weight": self.head.weight, "head.bias": self.head.bias}
        for name, *_ in LAYERS:
            conv, norm = getattr(self, name)
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            tensors[f"{name}.weight"] = conv.weight * scale[:, None, None, None]
            tensors[f"{name}.bias"] = norm.bias - norm.running_mean * scale
        return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def uniform(n, low, high):
    return torch.rand(n) * (high - low) + low


def moved(images):
    """Turned by up to 10 degrees, scaled by up to 12 %, moved by up to two pixels; outside is background."""
    n = len(images)
    turn, size = uniform(n, -math.pi / 18, math.pi / 18), uniform(n, 0.88, 1.12)
    shift = uniform(2 * n, -2 / 14, 2 / 14).reshape(n, 2)
    rows = [torch.stack([turn.cos() * size, -turn.sin() * size, shift[:, 0]], 1),
            torch.stack([turn.sin() * size, turn.cos() * size, shift[:, 1]], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images + 1, grid, align_corners=False) - 1


def augmented(images):
    n = len(images)
    contrast = uniform(n, 0.85, 1.15)[:, None, None, None]
    images = ((moved(images) + 1) * contrast - 1).clamp(max=1)
    # A patch of 7x7 is background in a quarter of the images.
    top, left = torch.randint(22, (2, n, 1))
    at = torch.arange(28)
    rows, columns = ((at >= start) & (at < start + 7) for start in (top, left))
    erased = (rows[:, :, None] & columns[:, None, :])[:, None] & (torch.rand(n, 1, 1, 1) < 0.25)
    return images.masked_fill(erased, -1.0)


def main():
    args = fashion_classifier.options(__doc__, epochs=6)
    train_set, test_set = fashion_classifier.data(args)
    net = Judge().to(memory_format=torch.channels_last)
    fashion_classifier.train(net, augmented, args, train_set, test_set)
    accuracy = fashion_classifier.accuracy(net, *test_set)
    config = {"kind": "fashion-judge", "test_accuracy": accuracy, "epochs": args.epochs}
    fashion_classifier.save(args.out, net.folded(), config)


if __name__ == "__main__":
    main()
