#!/usr/bin/env python3
"""The numerical study in batched PyTorch, to time `dyweight study numeric` against.

    python benches/peers/numeric_study.py --cells 10:8 20:14 40:20

All problems of a cell (K, S) form one batch; the solver is the plain recurrence with batched matrix products, the
gradient comes from autograd, the optimiser is torch.optim.Adam. `--batch-degrees` puts all eight degrees K of one S
into the same batch, which spreads PyTorch's overhead over 400 problems. The time of a full run is extrapolated: the
seconds per iteration of each cell (the fastest of many short rounds), fitted by a line in the number of updates,
summed over the 8 x 8 x 4 grid and multiplied by 2000 iterations. With `--iterations 2000 --rounds 1` the printed
errors can be compared with ours. On a machine that others use too, compare processor time on one thread: `--cpu`.
"""

import argparse
import time

import torch

CLASSICAL = [[1.0], [3 / 2, -1 / 2], [23 / 12, -16 / 12, 5 / 12], [55 / 24, -59 / 24, 37 / 24, -9 / 24]]
DEGREES = range(5, 41, 5)
STEPS = range(6, 21, 2)


def draw(degrees, problems, dims, dtype):
    """Batches of (powers -> solution) coefficients, padded with zeros to the largest degree, and couplings."""
    top = max(degrees) + 1
    c = torch.zeros(len(degrees) * problems, dims, top, dtype=dtype)
    for i, k in enumerate(degrees):
        c[i * problems : (i + 1) * problems, :, : k + 1] = 2.0 * torch.randn(problems, dims, k + 1, dtype=dtype)
    g = 0.1 / dims**0.5 * torch.randn(len(degrees) * problems, dims, dims, dtype=dtype)
    return c, g - 0.5 * torch.eye(dims, dtype=dtype)


def truth(c, times):
    k = torch.arange(c.shape[2], dtype=c.dtype)
    powers = times[:, None] ** k
    slopes = k * times[:, None] ** (k - 1).clamp(min=0)
    return torch.einsum("bdk,tk->tbd", c, powers), torch.einsum("bdk,tk->tbd", c, slopes)


def solve(y, dy, a, w, steps, order):
    """Terminal state of the method whose weights are w [batch, updates, order]."""
    h = 1.0 / steps
    state = y[order - 1]
    slopes = [dy[j] for j in range(order)]
    for row, n in enumerate(range(order - 1, steps)):
        recent = torch.stack([slopes[n - q] for q in range(order)], dim=2)
        state = state + h * torch.bmm(recent, w[:, row, :, None])[:, :, 0]
        if n + 1 < steps:
            slopes.append(dy[n + 1] + torch.bmm(a, (state - y[n + 1])[:, :, None])[:, :, 0])
    return state


def run(degrees, steps, order, args):
    c, a = draw(degrees, args.problems, args.dims, torch.float32 if args.f32 else torch.float64)
    y, dy = truth(c, torch.arange(steps + 1, dtype=c.dtype) / steps)
    rows = torch.tensor(CLASSICAL[order - 1], dtype=c.dtype)
    w = rows.expand(len(c), steps - order + 1, order).clone().requires_grad_(True)
    relative = lambda: (solve(y, dy, a, w, steps, order) - y[-1]).norm(dim=1) / y[-1].norm(dim=1)
    with torch.no_grad():
        standard = relative().mean().item()
    optimiser = torch.optim.Adam([w], lr=1e-3)
    clock = time.process_time if args.cpu else time.perf_counter
    best = float("inf")
    for _ in range(args.rounds):
        start = clock()
        for _ in range(args.iterations):
            optimiser.zero_grad(set_to_none=True)
            # The sum over problems of each one's mean: problems do not see each other.
            loss = ((solve(y, dy, a, w, steps, order) - y[-1]) ** 2).mean(dim=1).sum()
            loss.backward()
            optimiser.step()
        best = min(best, (clock() - start) / args.iterations)
    with torch.no_grad():
        return standard, relative().mean().item(), best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["10:8", "20:14", "40:20"], help="K:S pairs")
    parser.add_argument("--orders", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--problems", type=int, default=50)
    parser.add_argument("--dims", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds; the fastest counts")
    parser.add_argument("--batch-degrees", action="store_true")
    parser.add_argument("--f32", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time on one thread instead of wall time")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(1 if args.cpu else args.threads)
    torch.manual_seed(0)
    points = []
    for cell in args.cells:
        k, s = map(int, cell.split(":"))
        for order in args.orders:
            degrees = list(DEGREES) if args.batch_degrees else [k]
            standard, optimised, seconds = run(degrees, s, order, args)
            points.append((s - order + 1, seconds))
            after = args.rounds * args.iterations
            print(f"K={degrees} S={s} order={order}: {standard:.4f} -> {optimised:.4f} after {after} iterations, "
                  f"{1e3 * seconds:.2f} ms per iteration", flush=True)
    x = torch.tensor([[1.0, n] for n, _ in points], dtype=torch.float64)
    t = torch.tensor([s for _, s in points], dtype=torch.float64)
    base, slope = torch.linalg.lstsq(x, t).solution.tolist()
    batches = 1 if args.batch_degrees else len(DEGREES)
    total = 2000 * batches * sum(base + slope * (s - o + 1) for s in STEPS for o in (1, 2, 3, 4))
    kind = "processor time" if args.cpu else "wall time"
    print(f"extrapolated full grid: {total:.0f} s of {kind} with {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
