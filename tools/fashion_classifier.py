"""Training of a small classifier of Fashion-MNIST: the loop and the options that the feature networks' scripts share."""
import argparse, json, math

import torch
import torch.nn.functional as F

import fashion_data, tensor_file


def options(doc, epochs):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=epochs)
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
    return args


def data(args):
    """Images and labels, of training and of the test."""
    load = (lambda part: fashion_data.random(512)) if args.random else (lambda part: fashion_data.load(part, args.data))
    images, labels = load("train")
    return (images[:args.limit], labels[:args.limit]), load("t10k")


@torch.no_grad()
def accuracy(net, images, labels):
    was = net.training
    net.eval()
    right = sum((net(i).argmax(1) == l).sum().item() for i, l in zip(images.split(500), labels.split(500)))
    net.train(was)
    return right / len(images)


def train(net, augmented, args, train_set, test_set):
    """Adam with a cosine decay of the rate; `augmented` makes a batch of images harder."""
    images, labels = train_set
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
        print(f"epoch {epoch} loss {loss.item():.3f} test accuracy {accuracy(net, *test_set):.4f}", flush=True)


def save(out, tensors, config):
    tensor_file.save(out, tensors, {"config": json.dumps(config), "format": "pt"})
    with open(out.removesuffix(".safetensors") + ".json", "w") as file:
        json.dump(config, file, indent=1)
