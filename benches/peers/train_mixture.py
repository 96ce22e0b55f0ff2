"""Times the DyWeight training loop in PyTorch eager on a Gaussian mixture, the peer of `dyweight train --plain`.

One iteration: fresh noise, teacher iPNDM(4) on 35 points with the final denoising (35 calls, no gradient), student DyWeight with the
analytical first step, window 3, time shifting and scaling, mean squared error of the ends, gradient norm clipped at 1, Adam, warm-up and
cosine rate. The mixture's denoiser is closed form, so what is measured is the loop.

    python benches/peers/train_mixture.py MIXTURE.safetensors --nfe 3 --iterations 100 [--threads 1] [--dtype float32]

MIXTURE holds `model.mu [k,d]`, `model.std [k]`, `model.weight [k]`. Prints one JSON line. `all` runs both sides.
"""

import argparse
import json
import math
import struct
import time

import torch

SIGMA_MIN, SIGMA_MAX, RHO = 0.002, 80.0, 7.0
ADAMS_BASHFORTH = [[1.0], [1.5, -0.5], [23 / 12, -16 / 12, 5 / 12], [55 / 24, -59 / 24, 37 / 24, -9 / 24]]
FORMATS = {"F64": "d", "F32": "f"}


def read_mixture(path, dtype):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()

    def tensor(name):
        entry = header[name]
        start, end = entry["data_offsets"]
        code = FORMATS[entry["dtype"]]
        values = struct.unpack(f"<{(end - start) // struct.calcsize(code)}{code}", data[start:end])
        return torch.tensor(values, dtype=torch.float64).reshape(entry["shape"]).to(dtype)

    return Mixture(tensor("model.mu"), tensor("model.std"), tensor("model.weight"))


class Mixture:
    """E[x0 | x] for x = x0 + sigma·noise."""

    def __init__(self, means, stds, weights):
        self.means, self.variances, self.log_weights = means, stds**2, (weights / weights.sum()).log()
        self.squares = (means**2).sum(1)
        self.dims = means.shape[1]

    def __call__(self, x, sigma):
        noise = sigma * sigma
        total = self.variances + noise
        distances = (x * x).sum(1, keepdim=True) - 2 * x @ self.means.T + self.squares
        logits = self.log_weights - 0.5 * self.dims * total.log() - distances / (2 * total)
        share = logits.softmax(1)
        return (share * (noise / total)) @ self.means + (share @ (self.variances / total)).unsqueeze(1) * x


def grid(steps):
    u = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    low, high = SIGMA_MIN ** (1 / RHO), SIGMA_MAX ** (1 / RHO)
    return ((high + u * (low - high)) ** RHO).tolist()


@torch.no_grad()
def teach(model, x, times):
    slopes = []
    for i in range(len(times) - 1):
        slopes = ([(x - model(x, times[i])) / times[i]] + slopes)[:4]
        slope = sum(w * d for w, d in zip(ADAMS_BASHFORTH[len(slopes) - 1], slopes))
        x = x + (times[i + 1] - times[i]) * slope
    return model(x, times[-1])


class Student(torch.nn.Module):
    def __init__(self, steps, window, dtype):
        super().__init__()
        rows = torch.zeros(steps, steps, dtype=dtype)
        for i in range(steps):
            width = min(i + 1, window)
            rows[i, i + 1 - width : i + 1] = torch.tensor(ADAMS_BASHFORTH[width - 1][::-1], dtype=dtype)
        self.window = window
        self.weights = torch.nn.Parameter(rows)
        self.scales = torch.nn.Parameter(torch.ones(steps - 1, dtype=dtype))

    def forward(self, model, x, times):
        time, slopes = torch.tensor(times[0], dtype=x.dtype), []
        for i in range(len(times) - 1):
            if i == 0:
                slopes.append(x / (1 + time**2).sqrt())
            else:
                slopes.append((x - model(x, (self.scales[i - 1] * time).abs())) / (time + 1e-8))
            first = max(0, i + 1 - self.window)
            weights = self.weights[i, first : i + 1]
            length = times[i + 1] - time
            x = x + length * sum(w * d for w, d in zip(weights, slopes[first:]))
            time = time + length * weights.sum()
        return x


def rate_factor(iterations):
    warm = math.floor(0.1 * iterations)

    def factor(i):
        if i < warm:
            return 0.1 + 0.9 * i / warm
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (i - warm) / (iterations - warm)))

    return factor


def train(model, args, dtype):
    student, teacher_times, times = Student(args.nfe + 1, 3, dtype), grid(34), grid(args.nfe + 1)
    optimiser = torch.optim.Adam(student.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate_factor(args.iterations))
    generator = torch.Generator().manual_seed(0)
    losses = []
    started, started_cpu = time.perf_counter(), time.process_time()
    for _ in range(args.iterations):
        x = SIGMA_MAX * torch.randn(args.batch, model.dims, generator=generator, dtype=dtype)
        loss = torch.nn.functional.mse_loss(student(model, x, times), teach(model, x, teacher_times))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return time.perf_counter() - started, time.process_time() - started_cpu, losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mixture")
    parser.add_argument("--nfe", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)
    model = read_mixture(args.mixture, dtype)
    train(model, argparse.Namespace(**{**vars(args), "iterations": 5}), dtype)
    seconds, cpu_seconds, losses = train(model, args, dtype)
    tenth = max(1, len(losses) // 10)
    print(json.dumps({
        "torch": torch.__version__, "dtype": args.dtype, "threads": args.threads, "nfe": args.nfe, "batch": args.batch,
        "iterations": args.iterations, "seconds": seconds, "cpu_seconds": cpu_seconds, "iterations_per_second": args.iterations / seconds,
        "first_losses": sum(losses[:tenth]) / tenth, "last_losses": sum(losses[-tenth:]) / tenth,
    }))


if __name__ == "__main__":
    main()
