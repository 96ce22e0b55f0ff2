"""Trains the embedded model `fashion`: a class-conditional EDM U-Net of 28x28 grey images.

usage: train_fashion.py OUT.safetensors [--iterations N] [--data DIR | --random] [--threads T] [--seed S]

About 80 minutes on two cores with the defaults, which are those of the embedded weights. Then, for the asset,
pack_asset.py OUT.safetensors OUT.json crates/dyweight-models/assets/fashion.safetensors.

Objective (Karras et al. 2022): ln(sigma) ~ N(-1.2, 1.2^2), weight (sigma^2 + s^2)/(sigma*s)^2, s = 0.5. Labels are dropped
with probability 0.1: an all-zero row is the unconditional model.
"""
import argparse, copy, json, math, time

import torch

import edm_network, fashion_data, tensor_file

CONFIG = {"cls": "EDMPrecond", "img_resolution": 28, "img_channels": 1, "label_dim": 10, "model_type": "SongUNet",
          "sigma_data": 0.5, "model_channels": 32, "channel_mult": [1, 2, 3], "num_blocks": 1, "attn_resolutions": [7],
          "embedding_type": "positional", "encoder_type": "standard", "decoder_type": "standard",
          "channel_mult_noise": 1, "resample_filter": [1, 1], "dropout": 0.0}


def loss_of(net, images, labels):
    s = CONFIG["sigma_data"]
    sigma = (torch.randn(len(images)) * 1.2 - 1.2).exp()
    weight = ((sigma ** 2 + s ** 2) / (sigma * s) ** 2)[:, None, None, None]
    rows = torch.nn.functional.one_hot(labels, CONFIG["label_dim"]).float()
    rows = rows * (torch.rand(len(images), 1) >= 0.1)
    noisy = images + torch.randn_like(images) * sigma[:, None, None, None]
    return (weight * (net(noisy, sigma, rows) - images) ** 2).mean()


def rate(iteration, iterations, args):
    """Linear warm-up, then a cosine down to 2 %."""
    if iteration < args.warm_up:
        return args.rate * (iteration + 1) / args.warm_up
    progress = (iteration - args.warm_up) / max(1, iterations - args.warm_up)
    return args.rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()
def average(mean, net, iteration, decay):
    # A shorter memory at the start, so that the initial weights are forgotten.
    decay = min(decay, (1 + iteration) / (10 + iteration))
    for to, of in zip(mean.parameters(), net.parameters()):
        to.lerp_(of, 1 - decay)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--iterations", type=int, default=2293)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warm-up", type=int, default=200)
    parser.add_argument("--decay", type=float, default=0.9995)
    parser.add_argument("--data", default=fashion_data.DIRECTORY)
    parser.add_argument("--random", action="store_true", help="random images, to try the script")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    images, labels = fashion_data.random(512) if args.random else fashion_data.load("train", args.data)
    net = edm_network.build(CONFIG)
    net.model.initialise()
    mean = copy.deepcopy(net).requires_grad_(False)
    optimiser = torch.optim.Adam(net.parameters(), betas=(0.9, 0.99))
    order, started, recent = [], time.time(), []
    for iteration in range(args.iterations):
        if len(order) < args.batch:
            order = torch.randperm(len(images)).tolist()
        chosen, order = order[:args.batch], order[args.batch:]
        for group in optimiser.param_groups:
            group["lr"] = rate(iteration, args.iterations, args)
        loss = loss_of(net, images[chosen], labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        average(mean, net, iteration, args.decay)
        recent = (recent + [loss.item()])[-100:]
        if iteration % 50 == 0 or iteration + 1 == args.iterations:
            print(f"{iteration} loss {sum(recent) / len(recent):.4f} {time.time() - started:.0f} s", flush=True)
    tensor_file.save(args.out, mean.state_dict(), {"config": json.dumps(CONFIG), "format": "pt"})
    with open(args.out.removesuffix(".safetensors") + ".json", "w") as out:
        json.dump(CONFIG, out, indent=1)


if __name__ == "__main__":
    main()
