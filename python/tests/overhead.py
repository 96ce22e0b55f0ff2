"""What the package adds to the calls of a model: `python tests/overhead.py [asleep]`.

SD latents (4×64×64), batch 4, a model that takes 50 ms a call and 100 ms for its derivative: busy, as one is that computes or waits for a GPU, or asleep, after
which everything runs with cold caches. Printed is the time of a training iteration outside the calls, of the wall clock and of the processor; on a busy
machine the second is the one that says something.
"""

import sys
import time

import torch

import dyweight

CALL = 0.05


class Waiting(torch.autograd.Function):
    inside = [0.0, 0.0]

    @staticmethod
    def wait(seconds, work):
        begun = time.perf_counter(), time.process_time()
        result = work()
        if "asleep" in sys.argv:
            time.sleep(seconds)
        while time.perf_counter() - begun[0] < seconds:
            pass
        Waiting.inside[0] += time.perf_counter() - begun[0]
        Waiting.inside[1] += time.process_time() - begun[1]
        return result

    @staticmethod
    def forward(ctx, x):
        return Waiting.wait(CALL, lambda: x * 0.9)

    @staticmethod
    def backward(ctx, g):
        return Waiting.wait(2 * CALL, lambda: g * 0.9)


def main():
    model = dyweight.Model(lambda x, t: Waiting.apply(x), (4, 64, 64), "eps", (0.03, 14.6))
    marks = []

    def mark(_):
        marks.append((time.perf_counter(), time.process_time(), *Waiting.inside))

    dyweight.train(model, nfe=5, iters=6, batch=4, plain=True, progress=mark)
    for a, b in zip(marks[1:], marks[2:]):
        wall, cpu, inside, inside_cpu = (after - before for before, after in zip(a, b))
        print(f"iteration {wall:.3f} s; outside the calls {100 * (wall - inside) / wall:.2f} % of the clock,", end=" ")
        print(f"{1e3 * (cpu - inside_cpu):.1f} ms of the processor = {100 * (cpu - inside_cpu) / inside:.2f} % of the calls")


if __name__ == "__main__":
    main()
