"""Gauss–Newton without gradients: Levenberg–Marquardt on whole runs, whose Jacobian is made of differences.

    rᵢ(p)  end of pair i's few-step run minus the reference's        ℓ = mean over pairs of |rᵢ|²/D
    J·ₖ ≈ (r(p + hₖeₖ) − r(p))/hₖ                                    forward runs only
    Δ(λ) = −(JᵀJ + λ·max(diag JᵀJ, mean/100))⁻¹Jᵀr                  for every λ of a ladder around the last one
    p ← p + Δ(λ*)                                                    λ* has the lowest validation loss

The compiled optimiser of the package dyweight in numpy, rule by rule (crates/dyweight-train/src/gauss_newton), because
nothing is compiled here. `solves` has `pairs(split)` and `residuals(candidates, split, pair)`: an array for each
candidate, None where a run has diverged.
"""

import numpy as np

# λ's that are tried, as multiples of the last one; where none was low enough, the next ladder stands `HIGHER` higher.
LADDER, HIGHER = (1e-2, 1e-1, 1.0, 10.0, 100.0), 1e4
# A smaller share of the loss is no progress; after two iterations without any it ends.
IMPROVEMENT, PATIENCE = 0.01, 2
DAMPING, DAMPING_BOUNDS = 1e-2, (1e-9, 1e9)
# The first difference, its bounds, how much an iteration changes it, and the share of it that shows rounding alone.
DIFFERENCE, DIFFERENCE_BOUNDS, CHANGE, SHORT = 1e-2, (1e-4, 0.1), 4.0, 1.0 / 64.0
# Rounding in a run, as a share of the residual's own movement.
ROUNDING = 1e-9
# A parameter of less curvature than this share of the mean is damped as one that has so much.
WEAK = 1e-2
# Columns of a product that are taken at once.
CHUNK = 1 << 18


class GaussNewton:
    """The state between two iterations. `best` has the lowest validation loss; the start counts."""

    def __init__(self, start, solves, iterations=4):
        self.solves, self.iterations = solves, iterations
        self.best = np.array(start, float)
        self.differences = np.full(len(start), DIFFERENCE)
        self.damping, self.iteration, self.flat, self._kept = DAMPING, 0, 0, None
        self.initial_validation = self.best_validation = self._judge([self.best])[0]

    @property
    def is_finished(self):
        """True when there is nothing left to do."""
        return self.iteration >= self.iterations or self.flat >= PATIENCE or not len(self.best)

    def advance(self):
        """One iteration. Returns the training loss before it (NaN where every run has diverged)."""
        self.iteration += 1
        equations = self._equations()
        if equations is None:
            # Every run around the best parameters has diverged: closer ones next time.
            self.flat += 1
            self.differences *= 0.25
            return float("nan")
        dampings = [min(max(factor * self.damping, DAMPING_BOUNDS[0]), DAMPING_BOUNDS[1]) for factor in LADDER]
        candidates = [self.best + step(equations, damping) for damping in dampings]
        losses = self._judge(candidates)
        lowest = int(np.argmin(losses))
        progress = losses[lowest] < self.best_validation * (1.0 - IMPROVEMENT)
        self.flat = 0 if progress else self.flat + 1
        if losses[lowest] < self.best_validation:
            self.best, self.best_validation, self.damping = candidates[lowest], losses[lowest], dampings[lowest]
        else:
            self._kept = equations
            self.damping = min(self.damping * HIGHER, DAMPING_BOUNDS[1])
        return float(equations[0, 0])

    def _equations(self):
        """[r J]ᵀ[r J]/D at the best parameters, as the mean over all training pairs that can be solved."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        self._size_differences()
        found = []
        for pair in range(self.solves.pairs("training")):
            residuals = self.solves.residuals(moved(self.best, self.differences), "training", pair)
            if all(r is not None for r in residuals):
                made = products(residuals, self.differences)
                found += [made] if np.isfinite(made).all() else []
        return sum(found) / len(found) if found else None

    def _size_differences(self):
        """Looks at one pair, another in every iteration, for how long the differences may be."""
        pairs = self.solves.pairs("training")
        if pairs:
            candidates = probe(self.best, self.differences)
            found = self.solves.residuals(candidates, "training", (self.iteration - 1) % pairs)
            self.differences = sized(self.differences, found)

    def _judge(self, candidates):
        """Mean validation loss of each candidate; without validation pairs the training pairs judge."""
        split = "validation" if self.solves.pairs("validation") else "training"
        pairs = self.solves.pairs(split)
        sums = np.zeros(len(candidates))
        for pair in range(pairs):
            sums += [_loss(residual) for residual in self.solves.residuals(candidates, split, pair)]
        means = sums / max(pairs, 1)
        return [float(mean) if np.isfinite(mean) else float("inf") for mean in means]


def most_solves(iterations, parameters, training, validation):
    """Runs of one pair that so many parameters need at most."""
    judging = validation or training
    probing = 2 * parameters + 3 if training else 0
    return judging + iterations * (probing + (parameters + 1) * training + len(LADDER) * judging)


def _loss(residual):
    loss = np.inf if residual is None else float(np.mean(np.square(residual, dtype=np.float64)))
    return loss if np.isfinite(loss) else np.inf


def products(residuals, steps):
    """[r J]ᵀ[r J]/D of one pair, summed in f64."""
    base, found = residuals[0], np.zeros((len(residuals), len(residuals)))
    for first in range(0, len(base), CHUNK):
        part = slice(first, first + CHUNK)
        rows = np.stack([r[part] for r in residuals]).astype(np.float64)
        rows[1:] = (rows[1:] - rows[0]) / steps[:, None]
        found += rows @ rows.T
    return found / max(len(base), 1)


def step(equations, damping):
    """Δ(λ)."""
    matrix, gradient = equations[1:, 1:], equations[0, 1:]
    own = np.diag(matrix)
    mean = own.mean()
    # A parameter without effect has neither curvature nor slope: any bound keeps it where it is.
    more = damping * np.maximum(own, WEAK * mean) + 1e-9 * mean + np.finfo(float).tiny
    return -np.linalg.solve(matrix + np.diag(more), gradient)


# --- how long a difference may be: as long as a parabola is nearly a line, no shorter than what rounding leaves
#
#     s  = |r(p + he) − 2r(p) + r(p − he)|       h²·|r″| and √6·ε
#     ε  = |r(p + 2u) − 2r(p + u) + r(p)|/√6     for a u so short that nothing bends
#     h* = 2·√(ε/|r″|)                           least h|r″|/2 + 2ε/h


def moved(point, steps, sign=1.0):
    """The point, and the point moved in each parameter in turn."""
    return [point, *(point + sign * h * unit for h, unit in zip(steps, np.eye(len(point))))]


def probe(point, steps):
    """The point, both directions of each parameter, and two short steps in all of them."""
    signs = np.where(np.arange(len(point)) % 2 == 0, SHORT, -SHORT)
    short = [point + many * signs * steps for many in (1.0, 2.0)]
    return [*moved(point, steps), *moved(point, steps, -1.0)[1:], *short]


def sized(steps, found):
    """Steps for the next differences, from the residuals of one pair under `probe`."""
    n = len(steps)
    base, one, two = found[0], found[2 * n + 1], found[2 * n + 2]
    if base is None or one is None or two is None:
        return np.clip(steps / CHANGE, *DIFFERENCE_BOUNDS)
    noise, changes = _bend(two, one, base) / np.sqrt(6.0), []
    for above, below in zip(found[1 : n + 1], found[n + 1 : 2 * n + 1]):
        if above is None or below is None:
            changes.append(1.0 / CHANGE)
        else:
            changes.append(_change(_bend(above, base, below), max(noise, ROUNDING * _norm(above - below))))
    return np.clip(steps * changes, *DIFFERENCE_BOUNDS)


def _change(bend, noise):
    """h*/h, within bounds."""
    curved = np.sqrt(max(bend * bend - 6.0 * noise * noise, 0.0))
    if curved == 0.0:
        return 1.0 if noise == 0.0 else CHANGE
    return min(max(2.0 * np.sqrt(noise / curved), 1.0 / CHANGE), CHANGE)


def _bend(a, b, c):
    return _norm(a - 2.0 * b + c)


def _norm(values):
    return float(np.sqrt(np.sum(np.square(values, dtype=np.float64))))
