"""The method and the mixture model once more, in numpy and f64: what everything here is compared with."""

import numpy as np


class Mixture:
    """The exact denoiser of a Gaussian mixture: r_k = softmax(ln w_k − (d/2)ln V_k − |x−αμ_k|²/2V_k), V_k = α²s_k² + σ²."""

    def __init__(self, means, stds, weights, flow=False):
        self.means, self.stds = np.asarray(means, float), np.asarray(stds, float)
        self.weights, self.flow = np.asarray(weights, float) / np.sum(weights), flow

    @classmethod
    def spiral(cls, flow=False):
        """The built-in model `mixture`."""
        u = (np.arange(16) + 1.0) / 16.0
        arms = [
            np.stack([0.8 * u * np.cos(3.6 * u + turn), 0.8 * u * np.sin(3.6 * u + turn)], 1) for turn in (0, np.pi)
        ]
        return cls(np.concatenate(arms), np.tile(0.02 + 0.025 * u, 2), np.tile(0.5 + u, 2), flow)

    @classmethod
    def random(cls, dims, components=3, seed=0):
        """One that is not linear."""
        draw = np.random.default_rng(seed)
        return cls(draw.normal(size=(components, dims)), 0.2 + 0.1 * np.arange(components), 1.0 + np.arange(components))

    def __call__(self, x, sigma):
        """D, or v for a flow, of a batch of any shape, in the array's own kind (numpy or torch)."""
        flat = x.reshape(x.shape[0], -1)
        means, stds, weights = self._like(flat)
        alpha = 1.0 - sigma if self.flow else 1.0
        variances = alpha**2 * stds**2 + sigma**2
        distances = ((flat[:, None, :] - alpha * means) ** 2).sum(-1)
        log = -flat.shape[1] / 2 * _of(variances, "log") + _of(weights, "log") - distances / (2 * variances)
        log = log - (log.max(-1, keepdims=True) if isinstance(log, np.ndarray) else log.max(-1, keepdim=True).values)
        r = _of(log, "exp")
        r = r / r.sum(-1)[:, None]
        shrink = alpha * stds**2 / variances
        data = (r * (1.0 - alpha * shrink)) @ means + (r * shrink).sum(-1)[:, None] * flat
        if not self.flow:
            return data.reshape(x.shape)
        noise = (r * (sigma / variances)).sum(-1)[:, None] * flat - alpha * (r * (sigma / variances)) @ means
        return (noise - data).reshape(x.shape)

    def _like(self, x):
        if isinstance(x, np.ndarray):
            return self.means, self.stds, self.weights
        import torch

        return [torch.as_tensor(v, dtype=x.dtype, device=x.device) for v in (self.means, self.stds, self.weights)]


def _of(value, name):
    return getattr(np, name)(value) if isinstance(value, np.ndarray) else getattr(value, name)()


def sample(solver, predict, noise, start=0, state=None):
    """All states of a run. `predict(x, level, step)` is D, or v for a flow; `state` is given at step `start`."""
    solver = getattr(solver, "file", solver)
    x = solver.times[0] * noise if state is None else state
    time, slopes, states = solver.times[start], [], [x]
    flow = solver.prediction == "velocity"
    for i in range(start, solver.steps):
        if solver.afs and i == 0:
            r = np.sqrt((1 - time) ** 2 + time**2)
            slopes.append(x * (2 * time / (r * (1 + r)) if flow else 1 / np.sqrt(1 + time**2)))
        else:
            k = i - (solver.steps - len(solver.time_scale))
            level = abs((solver.time_scale[k] if k >= 0 else 1.0) * time)
            output = predict(x, level, i)
            slopes.append(output if flow else (x - output) / (time + 1e-8))
        row = list(solver.weights[i])
        # Slopes before the start count as the first.
        window = [slopes[max(len(slopes) - len(row) + k, 0)] for k in range(len(row))]
        delta = solver.sigmas[i + 1] - time
        x = x + delta * sum(w * d for w, d in zip(row, window))
        time = time + delta * sum(row) if solver.time_shift else solver.sigmas[i + 1]
        states.append(x)
    return states
