"""The exact network of N(0, 0.5²), in place of a pipeline's own: a sampler that is right ends at standard deviation 0.5.

What a network is told and shown is read here from diffusers' own schedulers, not from `dyweight.process`.
"""

import copy
import inspect

import numpy as np
import torch

VARIANCE = 0.25


def answer(own, shown, told):
    """What a perfect network says, from what it is told and shown by the scheduler `own`."""
    name, config, v = type(own).__name__, own.config, VARIANCE
    if name.startswith("MiniMax"):
        s = 1 - told
        return shown * (((1 - s) * v - s) / ((1 - s) ** 2 * v + s**2))
    if name.startswith(("FlowMatch", "LTXEuler")) or config.get("use_flow_sigmas") or config.get("prediction_type") == "flow_prediction":
        s = told / config.get("num_train_timesteps", 1000)
        s = 1 - s if config.get("invert_sigmas") else s
        if config.get("use_flow_sigmas") and config.get("prediction_type") == "epsilon":
            return shown * (s / ((1 - s) ** 2 * v + s**2))
        velocity = shown * ((s - (1 - s) * v) / ((1 - s) ** 2 * v + s**2))
        return -velocity if config.get("invert_sigmas") else velocity
    sigma = _level(own, told)
    if name.startswith(("EDM", "Cosine")):
        d2 = config.sigma_data**2
        x = shown * np.sqrt(sigma**2 + d2)
        out = sigma * np.sqrt(d2) / np.sqrt(sigma**2 + d2)
        f = (v / (v + sigma**2) * x - d2 / (sigma**2 + d2) * x) / out
        return -f if config.prediction_type == "v_prediction" else f
    x = shown * np.sqrt(1 + sigma**2)
    data = v / (v + sigma**2) * x
    noise = (x - data) / sigma
    prediction = config.get("prediction_type", "epsilon")
    if prediction == "sample":
        return data
    return noise if prediction == "epsilon" else (noise - sigma * data) / np.sqrt(1 + sigma**2)


def _level(own, told):
    name, config = type(own).__name__, own.config
    if name.startswith("EDM") or (name.startswith("Euler") and config.get("timestep_type") == "continuous"):
        return np.exp(4 * told)
    if name.startswith(("Cosine", "IPNDM")):
        return np.tan(told * np.pi / 2)
    log = own.alphas_cumprod.double().clamp(min=2.0**-24).log()
    left = int(np.clip(np.floor(told), 0, len(log) - 2))
    return float(torch.expm1(-(log[left] + (told - left) * (log[left + 1] - log[left])))) ** 0.5


class NoExactNetwork(Exception):
    """The exact network cannot be put in place of this pipeline's."""


class Exact:
    """A pipeline whose denoising networks are exact while this lasts."""

    def __init__(self, pipe, call, setting=None):
        from dyweight.black_box import BlackBox

        self.box = BlackBox(pipe, [call], {}) if setting is None else setting.box
        self.own = copy.deepcopy(pipe.scheduler)
        self.told, self.fit, self.mu, self.sign, self.setting = [], None, None, 1.0, setting

    def __enter__(self):
        self.networks = list(_networks(self.box.pipe))
        if not self.networks:
            raise NoExactNetwork("no part of it is told a timestep")
        self.kept = [network.forward for network in self.networks]
        for network in self.networks:
            network.forward = self._forward(network.forward)
        self.bar = self.box.borrowed()
        self.bar.__enter__()
        try:
            self._put_in_place()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.bar.__exit__(None, None, None)
        for network, kept in zip(self.networks, self.kept):
            network.forward = kept

    def _put_in_place(self):
        """With the sign of what it answers at which diffusers' own steps end at 0.5, if there is one."""
        from dyweight.learning import first_order

        self.sibling = first_order(self.own)
        self._learn_what_is_told()
        apart = {}
        for self.sign in (1.0, -1.0):
            self.first = self._theirs(30)
            apart[self.sign] = abs(float(self.first.end.std()) - 0.5)
            if apart[self.sign] < 0.15:
                return
        self.sign, self.first = min(apart, key=lambda sign: apart[sign]), None

    def verdict(self):
        """Whether ours is right, and in words where ours and theirs end: refined until the answer is clear.

        From pure noise both end at 0.5. Where pictures are given, or begun at, both end at the same picture.
        """
        for steps in (30, 120, 480):
            theirs = self.first if steps == 30 and self.first is not None else self._theirs(steps)
            ours, theirs = self._ours(steps, theirs).end, theirs.end
            if not torch.isfinite(theirs).all():
                raise NoExactNetwork("diffusers' own steps diverge with it")
            if ours.shape != theirs.shape:
                return False, f"shapes {list(ours.shape)}, {list(theirs.shape)}"
            apart = float((ours - theirs).norm() / theirs.norm())
            ends = [float(ours.std()), float(theirs.std())]
            says = f"{ends[0]:.3f} (own {ends[1]:.3f}), {apart:.3f} apart, {steps} steps"
            if max(abs(end - 0.5) for end in ends) < 0.02 or apart < 0.02:
                return True, says
            # One that adds noise ends at another picture, whose size is known as well as that of a few numbers can be.
            if self.sibling is None and steps > 100 and abs(ends[0] - ends[1]) < 0.02 + 1.5 / (2 * ours.numel()) ** 0.5:
                return abs(ends[1] - 0.5) < 0.1, says
        return False, says

    def _ours(self, steps, theirs):
        """Ours, of the first order: on their levels, or on the pipeline's own where these are not a first order's."""
        from dyweight.learning import _end, falling, setting_of
        from dyweight.starts import adams, resampled

        setting = self.setting if self.setting is not None else setting_of(self.box, 5, 20, (0, 0))
        levels = [setting.process.level(t) for t in theirs.timesteps[theirs.begin or 0 :]]
        levels = [*levels, _end(next(iter(theirs.runs.values()))["scheduler"])]
        if self.sibling is None or len(falling(levels)) != len(levels):
            setting = setting_of(self.box, 5, steps, (0, 0))
            levels = resampled([*setting.long_levels, setting.end], steps)
        scheduler = setting.scheduler(adams("Euler", levels, 1), steps)
        scheduler.process.clip = None
        return self.box.run(scheduler, steps, (0, 0))

    def _theirs(self, steps):
        sibling = self.sibling if self.sibling is not None else self.own
        return self.box.run(copy.deepcopy(sibling), steps, (0, 0), rival=True)

    def _learn_what_is_told(self):
        """The line from what the network is told to the scheduler's timestep: t, t/1000, 1 − t/1000 …"""
        from dyweight.learning import _guess

        log = self._theirs(_guess(self.box, 6, (0, 0)))
        known = log.timesteps[log.begin or 0 :]
        offered = log.offered[0]
        if offered.get("timesteps") is not None and offered.get("sigmas") is not None:
            self.mu = offered.get("mu")  # its levels alone are shifted, not what the network is told
        told = self.told[:: max(len(self.told) // len(known), 1)][: len(known)]
        if len(told) != len(known):
            raise NoExactNetwork(f"the network is called {len(told)} times in {len(known)} steps")
        if not np.isfinite([*told, *known]).all() or not np.ptp(told):
            raise NoExactNetwork("the network is told the same at every step, or what is no number")
        self.fit = np.polyfit(told, known, 1)
        if np.abs(np.polyval(self.fit, told) - known).max() > 1e-2 * max(np.abs(known)):
            raise NoExactNetwork("what the network is told is no line in the scheduler's timesteps")

    def _forward(self, kept):
        parameters, known = inspect.signature(kept), {}

        def forward(*given, **named):
            bound = parameters.bind(*given, **named).arguments
            x = next(iter(bound.values()))
            told = torch.as_tensor(bound.get("timestep", bound.get("t"))).flatten().double()
            # Its own answer is asked for once: of it only the shape is kept.
            asked = ([getattr(value, "shape", None) for value in bound.values()], len(x))
            if str(asked) not in known:
                known[str(asked)] = kept(*given, **named)
            result = copy.copy(known[str(asked)])
            if self.fit is None:
                self.told.append(float(told.max()))
                return result
            t = float(np.polyval(self.fit, float(told.max())))
            if self.mu is not None:
                t = 1000 * float(self.own.time_shift(self.mu, 1.0, torch.tensor(t / 1000)))
            return self._replaced(result, x, t)

        return forward

    def _replaced(self, result, x, t):
        first = result[0]
        said = [self._of(o, i, t) for o, i in zip(first, x)] if isinstance(first, list) else self._of(first, x, t)
        if isinstance(result, tuple):
            return (said, *result[1:])
        if isinstance(result, torch.Tensor):
            return self._of(result, x, t)
        key = next(iter(result.keys()))
        result[key] = said
        setattr(result, key, said)
        return result

    def _of(self, output, x, t):
        """The exact answer in the output's shape: further channels of the input are conditions, of the output variances."""
        shown = x[tuple(slice(0, n) for n in output.shape)].double()
        said = torch.zeros_like(output)
        exact = self.sign * torch.as_tensor(answer(self.own, shown, t))
        said[tuple(slice(0, n) for n in shown.shape)] = exact.to(output.dtype)
        return said


def _networks(pipe):
    """What denoises: networks that are told a timestep, but for ControlNets and adapters."""
    for name, part in getattr(pipe, "components", {}).items():
        if isinstance(part, torch.nn.Module) and not any(word in name for word in ("vae", "controlnet", "adapter", "encoder")):
            if {"timestep", "t"} & set(inspect.signature(part.forward).parameters):
                yield part
