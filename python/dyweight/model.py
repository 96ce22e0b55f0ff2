"""Any callable as a model that solvers can be learned for.

    "eps"        ε = fn(x/√(1+σ²), t)      D = x − σ·ε                       x = x₀ + σn
    "v"          v = fn(x/√(1+σ²), t)      D = x/(1+σ²) − v·σ/√(1+σ²)        x = x₀ + σn
    "denoised"   D = fn(x, t)                                                x = x₀ + σn
    "velocity"   v = fn(x, t)                                                x = (1−σ)x₀ + σn

t is `sigma_to_t(σ)`, or σ itself. States and conversions are f64, in the compiled part; fn gets its own dtype on its own device.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import json
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from . import _native

PREDICTIONS = ("eps", "v", "denoised", "velocity")
#: As diffusers calls them.
_OTHER_NAMES = {"epsilon": "eps", "v_prediction": "v", "sample": "denoised", "flow_prediction": "velocity"}
#: How they may be given.
Prediction = Literal["eps", "v", "denoised", "velocity", "epsilon", "v_prediction", "sample", "flow_prediction"]
# Relative step of the central difference in the level, where no derivative is given.
_STEP = 1e-4


#: What a model's function answers with: tensors of PyTorch, or arrays of numpy.
Array = TypeVar("Array")


class Model(Generic[Array]):
    """A frozen model: `fn(x, t)` on batches `x` of shape `[n, *shape]` and one `t` for each sample.

    A model of standard normal data, whose noise prediction is known:

    >>> import torch, dyweight
    >>> def fn(x, sigma):                            # x is scaled to variance 1, as networks of noise want it
    ...     return x * (sigma / (1 + sigma**2).sqrt())[:, None]
    >>> model = dyweight.Model(fn, shape=(3,), prediction="eps", sigma_range=(0.01, 80), dtype=torch.float64)
    >>> model
    Model(fn, shape=(3,), prediction='eps', sigma_range=(0.01, 80.0), torch.float64 on cpu)

    Arguments:
        fn: `fn(x, t)`, or `fn(x, t, c)` for a model with conditions. Sample i of the answer depends on sample i alone.
            A tuple is taken for its first part, an output of diffusers for its `sample`.
        shape: of one sample.
        prediction: what `fn` answers: "eps", "v", "denoised" or "velocity" (see the head of this module), or the same
            by diffusers' names: "epsilon", "v_prediction", "sample", "flow_prediction".
        sigma_range: smallest and largest noise level the model was trained for; (0, 1) for a flow.
        sigma_to_t: what `fn` is told instead of σ: a function of a batch of levels, differentiable, or the levels of
            the timesteps 0, 1, 2, …, between which ln √(1+σ²) is linear.
        conditions: how many conditions there are, or a list of them. `fn` is then also given, for each sample, the
            condition's number (−1 for none) or the condition itself (None for none).
        vjp: for numpy: `vjp(x, t, g)`, or `vjp(x, t, g, c)`: the gradient of Σ g·fn in x, or a pair of it and the
            gradient in t. Without the latter, or with `sigma_to_t`, two more calls find the derivative in the level.
        arrays: "torch" or "numpy"; numpy where `vjp` is given.
        device, dtype: of what `fn` is given; those of its parameters if it is a module, else cpu and float32 (float64
            for numpy).
        calls: network calls of one evaluation, for counting: 2 where `fn` itself computes guidance.
        guided: `fn` applies guidance itself; the `guidance` of training is then only written down.
        bounded: data lie in [−1, 1]; DPM-Solver++ and UniPC then threshold their data predictions.
        name: how it is called in files and tables.
        fingerprint: tells this model from every other, for caches and for resuming; from its answers if left out.
    """

    def __init__(
        self,
        fn: Callable[..., Array],
        shape: Sequence[int],
        prediction: Prediction = "eps",
        sigma_range: tuple[float, float] | None = None,
        sigma_to_t: Callable[[Any], Any] | Sequence[float] | None = None,
        *,
        conditions: int | Sequence[Any] = 0,
        negative: Any = None,
        vjp: Callable[..., Any] | None = None,
        arrays: str | None = None,
        device: Any = None,
        dtype: Any = None,
        calls: int = 1,
        guided: bool = False,
        bounded: bool = False,
        name: str | None = None,
        fingerprint: str | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"fn is {type(fn).__name__}, which cannot be called")
        named = _OTHER_NAMES.get(prediction, prediction)
        if named not in PREDICTIONS:
            raise ValueError(f"prediction is {prediction!r}, not one of {', '.join((*PREDICTIONS, *_OTHER_NAMES))}")
        self.fn, self.vjp = fn, vjp
        self.shape = tuple(int(n) for n in shape)
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"shape is {self.shape}: the shape of one sample has at least one dimension, all above 0")
        self.prediction = named
        self.sigma_range = _range(sigma_range, named)
        self.conditions, self.negative = conditions, negative
        self.calls, self.guided, self.bounded = int(calls), bool(guided), bool(bounded)
        self.name = name or getattr(fn, "__name__", None) or type(fn).__name__
        self._fingerprint = fingerprint
        kind = arrays or ("numpy" if vjp is not None else "torch")
        if kind not in ("torch", "numpy"):
            raise ValueError(f"arrays is {arrays!r}, neither 'torch' nor 'numpy'")
        self._arrays: _Torch | _Numpy = _Torch(fn, device, dtype) if kind == "torch" else _Numpy(vjp, dtype, self.shape)
        self.sigma_to_t = sigma_to_t if sigma_to_t is None or callable(sigma_to_t) else self._arrays.table(sigma_to_t)

    def __repr__(self) -> str:
        parts = [
            self.name,
            f"shape={self.shape}",
            f"prediction={self.prediction!r}",
            f"sigma_range={self.sigma_range}",
            str(self._arrays),
        ]
        return f"Model({', '.join(parts)})"

    def with_conditions(self, conditions: int | Sequence[Any]) -> Model[Array]:
        """The same model with other conditions."""
        other = copy.copy(self)
        other.conditions, other._fingerprint = conditions, None
        return other

    @property
    def fingerprint(self) -> str:
        """What tells this model from every other: given, or made from its answers to fixed questions, and its conditions.

        Conditions that are arrays, texts or numbers count by their content. Others, and those that are mere numbers to
        `fn`, count by the answers to them: to all of them, or to 64 spread over all where there are more.
        """
        if self._fingerprint is None:
            self._fingerprint = self._ask_for_fingerprint()
        return self._fingerprint

    def __call__(self, x: Array | np.ndarray, sigma: Any, conditions: Sequence[int] | None = None) -> Array:
        """The data prediction D(x, σ), or the velocity of a flow, as solvers see it.

        >>> import numpy as np, dyweight
        >>> half = dyweight.Model(lambda x, t: x / 2, (2,), "denoised", (0.1, 10), arrays="numpy")
        >>> half(np.ones((1, 2)), 3.0)
        array([[0.5, 0.5]])
        """
        x = _samples(x, self.shape, "x")
        levels = np.broadcast_to(_numbers(sigma), x.shape[:1])
        classes = None if conditions is None else [int(c) for c in conditions]
        return self._arrays.own(_native.predict(self, x.tobytes(), levels.tobytes(), classes), self.shape)

    # --- what the compiled part asks for ---

    def _facts(self) -> str:
        core = "velocity" if self.prediction == "velocity" else "denoised"
        return json.dumps(
            {
                "name": self.name,
                "fingerprint": self._fingerprint,
                "arithmetic": str(self._arrays),
                "shape": _three(self.shape),
                "prediction": core,
                "target": self.prediction if self.prediction in ("eps", "v") else "itself",
                "wire": self._arrays.wire,
                "sigma_range": self.sigma_range,
                "conditions": self._count(),
                "calls": self.calls,
                "guided": self.guided,
                "bounded": self.bounded,
            }
        )

    def _answer(self, shown: bytearray, levels: bytearray, conditions: list[int] | None) -> bytes:
        return self._arrays.answer(self, shown, levels, conditions)

    def _answer_with_pullback(self, shown: bytearray, levels: bytearray, conditions: list[int] | None) -> tuple[bytes, Any]:
        return self._arrays.answer_with_pullback(self, shown, levels, conditions)

    def _asked(self, shown: Any, sigma: Any, conditions: list[int] | None) -> Any:
        """What `fn` answers."""
        told = self._arrays.told(sigma if self.sigma_to_t is None else self.sigma_to_t(sigma))
        output = _plain(self.fn(shown, told, *self._condition(conditions, shown.shape[0])))
        return self._arrays.checked(output, shown)

    def _count(self) -> int:
        return self.conditions if isinstance(self.conditions, int) else len(self.conditions)

    def _condition(self, numbers: list[int] | None, samples: int) -> list[Any]:
        """The third argument of `fn`, where it has one."""
        if not self._count():
            return []
        numbers = [-1] * samples if numbers is None else numbers
        if isinstance(self.conditions, int):
            return [self._arrays.integers(numbers)]
        return [[self.conditions[i] if i >= 0 else self.negative for i in numbers]]

    def _ask_for_fingerprint(self) -> str:
        low, high = self.sigma_range
        levels = [high / 2, high / 4] if self.prediction == "velocity" else [math.sqrt(low * high), high / 2]
        noise = np.random.Generator(np.random.PCG64(0)).standard_normal((2, *self.shape))
        conditions = [0, self._count() - 1] if self._count() else None
        x = noise * np.reshape(levels, (-1, *[1] * len(self.shape)))

        def ask(conditions: list[int] | None) -> bytes:
            return _native.predict(self, x.tobytes(), np.asarray(levels).tobytes(), conditions)

        facts = json.dumps([str(self._arrays), self.shape, self.prediction, self._count(), self.calls])
        digest = hashlib.sha256(facts.encode() + ask(conditions))
        if self._count():
            are_numbers = isinstance(self.conditions, int)
            own = getattr(self.fn, "conditions_content", lambda: None)() if are_numbers else _content(self.conditions)
            negative = _content(self.negative)
            digest.update(json.dumps([own, negative]).encode())
            if own is None:
                asked = np.unique(np.linspace(0, self._count() - 1, 64).round().astype(int)).tolist()
                for pair in zip(asked[::2], asked[1::2] + asked[-1:]):
                    digest.update(ask(list(pair)))
            if negative is None:
                digest.update(ask(None))
        return digest.hexdigest()


def _content(value: Any) -> str | None:
    """A digest of what a value holds; None where that cannot be said."""
    if value is None or isinstance(value, (str, bytes, int, float, bool)):
        return hashlib.sha256(repr(value).encode()).hexdigest()
    if isinstance(value, dict):
        value = [item for pair in value.items() for item in pair]
    if isinstance(value, (list, tuple)):
        parts = [_content(item) for item in value]
        return None if None in parts else hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    if hasattr(value, "detach"):
        value = value.detach().float().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        held = np.ascontiguousarray(value)
        return hashlib.sha256(f"{held.dtype} {held.shape}".encode() + held.tobytes()).hexdigest()
    return None


def _range(given: tuple[float, float] | None, prediction: str) -> tuple[float, float]:
    if given is None:
        if prediction != "velocity":
            raise ValueError("sigma_range is missing: smallest and largest noise level the model was trained for")
        given = (0.0, 1.0)
    low, high = (float(s) for s in given)
    if not (0.0 <= low < high < math.inf) or (low == 0.0 and prediction != "velocity"):
        raise ValueError(f"sigma_range is ({low}, {high}): two numbers above 0, the smaller first")
    return low, high


def _three(shape: tuple[int, ...]) -> list[int]:
    """A shape of any number of dimensions as the [c, h, w] of the library; the order of the numbers is the same."""
    if len(shape) <= 3:
        return [*shape, *[1] * (3 - len(shape))]
    return [*shape[:2], math.prod(shape[2:])]


def _plain(output: Any) -> Any:
    """The array in what a network answers with."""
    if isinstance(output, dict) and "sample" in output:
        return output["sample"]
    if isinstance(output, (tuple, list)) and output:
        return output[0]
    return getattr(output, "sample", output) if hasattr(output, "__dataclass_fields__") else output


def _other_shape(given: Sequence[int], found: Sequence[int]) -> ValueError:
    text = f"fn was given shape {list(given)} and answered with {list(found)}"
    if len(found) == len(given) > 1 and found[1] == 2 * given[1]:
        text += f": of a network that predicts variances too, answer with the first half, output[:, :{given[1]}]"
    return ValueError(text)


class _Numpy:
    """Arrays of numpy, with a derivative that is given."""

    def __init__(self, vjp: Callable[..., Any] | None, dtype: Any, shape: tuple[int, ...]) -> None:
        self.vjp, self.dtype, self.shape = vjp, np.dtype(dtype or np.float64), shape
        self.wire = "float64" if self.dtype == np.float64 else "float32"

    def __str__(self) -> str:
        return f"numpy {self.dtype}"

    def table(self, sigmas: Sequence[float]) -> Callable[[Any], Any]:
        return _NumpyTable(-0.5 * np.log1p(np.asarray(sigmas, np.float64) ** 2))

    def own(self, numbers: bytearray, shape: tuple[int, ...]) -> Any:
        return np.frombuffer(numbers, np.float64).reshape(-1, *shape)

    result = own

    def shown(self, numbers: bytearray) -> Any:
        return np.frombuffer(numbers, self.wire).reshape(-1, *self.shape).astype(self.dtype, copy=False)

    def packed(self, values: Any, wire: str) -> bytes:
        return np.ascontiguousarray(values, wire).tobytes()

    def integers(self, numbers: list[int]) -> Any:
        return np.asarray(numbers)

    def told(self, values: Any) -> Any:
        return values.astype(self.dtype, copy=False)

    def checked(self, output: Any, like: Any) -> Any:
        output = np.asarray(output)
        if output.shape != like.shape:
            raise _other_shape(like.shape, output.shape)
        return output

    def answer(self, model: Model[Any], shown: bytearray, levels: bytearray, conditions: Any) -> bytes:
        return self.packed(model._asked(self.shown(shown), self.own(levels, ()), conditions), self.wire)

    def answer_with_pullback(self, model: Model[Any], x: bytearray, levels: bytearray, conditions: Any) -> tuple[bytes, Any]:
        if self.vjp is None:
            raise ValueError("a solver is learned by derivatives: give Model(vjp=…), or use torch")
        shown, sigma = self.shown(x), self.own(levels, ())
        answer = model._asked(shown, sigma, conditions)

        def pullback(cotangent: bytearray) -> tuple[bytes, bytes]:
            to_shown, to_sigma = self._gradients(model, shown, sigma, self.shown(cotangent), conditions)
            return self.packed(to_shown, self.wire), self.packed(to_sigma, "float64")

        return self.packed(answer, self.wire), pullback

    def _gradients(self, model: Model[Any], shown: Any, sigma: Any, g: Any, conditions: Any) -> tuple[Any, Any]:
        """Gradients of Σ g·fn(shown, t(σ)) in both."""
        told = self.told(sigma if model.sigma_to_t is None else model.sigma_to_t(sigma))
        assert self.vjp is not None, "see answer_with_pullback"
        answer = self.vjp(shown, told, g, *model._condition(conditions, len(shown)))
        to_shown, to_t = answer if isinstance(answer, tuple) else (answer, None)
        if to_t is None or model.sigma_to_t is not None:
            step = _STEP * np.maximum(np.abs(sigma), 1e-8)
            above, below = (np.float64(model._asked(shown, sigma + s * step, conditions)) for s in (1.0, -1.0))
            to_t = (g * (above - below)).reshape(len(shown), -1).sum(1) / (2.0 * step)
        return self.checked(to_shown, shown), to_t


class _Torch:
    """Tensors of PyTorch, with derivatives from torch.autograd."""

    def __init__(self, fn: Any, device: Any, dtype: Any) -> None:
        try:
            self.torch = torch = importlib.import_module("torch")
        except ImportError as error:
            raise ImportError("PyTorch is not installed; numpy callables are given with arrays='numpy'") from error
        owners = (fn, getattr(fn, "network", None), getattr(fn, "__self__", None))
        self.modules = [m for m in owners if isinstance(m, torch.nn.Module)]
        self._warn_of_training()
        first = next((p for m in self.modules for p in m.parameters() if p.is_floating_point()), None)
        self.device = torch.device(device if device is not None else first.device if first is not None else "cpu")
        self.dtype = dtype or (first.dtype if first is not None else torch.float32)
        if self.device.type == "meta" or (first is not None and first.is_meta):
            raise ValueError("the model is on the device meta, which holds no numbers: load its weights first")
        if not self.dtype.is_floating_point:
            raise ValueError(f"dtype is {self.dtype}, not a floating-point type")
        self.wire = "float64" if self.dtype == torch.float64 else "float32"
        # Apple's GPUs have no f64.
        self.work = torch.float32 if self.device.type == "mps" else torch.float64
        self.level = torch.promote_types(self.dtype, torch.float32)
        # Whether a derivative has come back through t, and whether someone was told that none does.
        self.follows_t = self.warned = False

    def __str__(self) -> str:
        return f"{self.dtype} on {self.device.type}"

    def _warn_of_training(self) -> None:
        nn = self.torch.nn.modules
        parts = [part for m in self.modules for part in m.modules() if part.training]
        drops = any(isinstance(part, nn.dropout._DropoutNd) and part.p > 0 for part in parts)
        if drops or any(isinstance(part, nn.batchnorm._BatchNorm) for part in parts):
            what = "dropout" if drops else "batch normalisation"
            warnings.warn(f"the network is in training mode, where {what} makes its answers random: call eval()", stacklevel=4)

    # A library cannot be copied or pickled: whoever gets this has its own.
    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "torch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, torch=importlib.import_module("torch"))

    def table(self, sigmas: Sequence[float]) -> Callable[[Any], Any]:
        torch = self.torch
        return _TorchTable(-0.5 * torch.log1p(torch.as_tensor(sigmas, dtype=self.work, device=self.device) ** 2))

    def own(self, numbers: bytearray, shape: tuple[int, ...]) -> Any:
        return self.torch.from_numpy(np.frombuffer(numbers, np.float64).reshape(-1, *shape)).to(self.work).to(self.device)

    def shown(self, numbers: bytearray, model: Model) -> Any:
        array = np.frombuffer(numbers, self.wire).reshape(-1, *model.shape)
        return self.torch.from_numpy(array).to(self.device, self.dtype)

    def packed(self, values: Any, wire: str) -> bytes:
        return values.detach().cpu().to(getattr(self.torch, wire)).contiguous().numpy().tobytes()

    def integers(self, numbers: list[int]) -> Any:
        return self.torch.tensor(numbers, device=self.device)

    def told(self, values: Any) -> Any:
        told = values.to(self.level)
        if told.requires_grad and not self.follows_t:
            told = told.clone() if told is values else told
            told.register_hook(self._note_use)
        return told

    def _note_use(self, _: Any) -> None:
        self.follows_t = True

    def result(self, numbers: bytearray, shape: tuple[int, ...]) -> Any:
        """Samples as the model has them: on its device, in its precision but f32 at least."""
        return self.own(numbers, shape).to(self.level)

    def checked(self, output: Any, like: Any) -> Any:
        torch = self.torch
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"fn answered with {type(output).__name__}, not with a tensor")
        if output.is_meta:
            raise ValueError("fn answered with a tensor on the device meta, which holds no numbers")
        if output.device != like.device:
            hint = f"say Model(device='{output.device}')"
            raise ValueError(f"fn was given a tensor on {like.device} and answered with one on {output.device}: {hint}")
        if output.shape != like.shape:
            raise _other_shape(like.shape, output.shape)
        if torch.is_grad_enabled() and like.requires_grad and not output.requires_grad:
            raise ValueError(
                "fn's answer cannot be differentiated: is there a no_grad, an inference_mode or a detach in it?"
            )
        return output

    def answer(self, model: Model[Any], shown: bytearray, levels: bytearray, conditions: Any) -> bytes:
        with self.torch.no_grad():
            return self.packed(model._asked(self.shown(shown, model), self.own(levels, ()), conditions), self.wire)

    def answer_with_pullback(self, model: Model[Any], x: bytearray, levels: bytearray, conditions: Any) -> tuple[bytes, Any]:
        torch = self.torch
        # Someone may have switched derivatives off around all of this.
        with torch.inference_mode(False), torch.enable_grad(), self._frozen():
            shown = self.shown(x, model).requires_grad_()
            sigma = self.own(levels, ()).requires_grad_()
            answer = model._asked(shown, sigma, conditions)

        def pullback(cotangent: bytearray) -> tuple[bytes, bytes]:
            with torch.inference_mode(False):
                g = self.shown(cotangent, model).to(answer.dtype)
                # Second-order descent asks twice. What the graph holds goes with this function.
                grads = torch.autograd.grad(answer, (shown, sigma), g, retain_graph=True, allow_unused=True)
            if not (self.follows_t or self.warned):
                self.warned = True
                warnings.warn(
                    "fn has no derivative in t (is t rounded, or looked up in a table?): the times told to it are learned"
                    " without; train(…, no_time_scale=True) leaves them as they are",
                    stacklevel=2,
                )
            to_shown, to_sigma = (torch.zeros_like(v) if d is None else d for d, v in zip(grads, (shown, sigma)))
            return self.packed(to_shown, self.wire), self.packed(to_sigma, "float64")

        return self.packed(answer, self.wire), pullback

    @contextlib.contextmanager
    def _frozen(self) -> Any:
        """Weights need no gradients, and what those would keep is most of the memory."""
        weights = [p for m in self.modules for p in m.parameters()]
        if any(p.is_inference() for p in weights):
            raise ValueError(
                "the weights were made under torch.inference_mode, which forbids derivatives: load them outside of it"
            )
        learning = [p for p in weights if p.requires_grad]
        for p in learning:
            p.requires_grad_(False)
        try:
            yield
        finally:
            for p in learning:
                p.requires_grad_(True)


class _NumpyTable:
    """The timestep of a level in a noise table: ln α is linear between its knots."""

    def __init__(self, knots: Any) -> None:
        _check_table(knots)
        self.knots = knots

    def __call__(self, sigma: Any) -> Any:
        knots, log_alpha = self.knots, -0.5 * np.log1p(sigma**2)
        right = np.clip(np.searchsorted(-knots, -log_alpha), 1, len(knots) - 1)
        a, b = knots[right - 1], knots[right]
        return right - 1 + (log_alpha - a) / (b - a)


class _TorchTable:
    """The same for tensors, with a derivative."""

    def __init__(self, knots: Any) -> None:
        _check_table(knots.cpu().numpy())
        self.knots = knots

    def __call__(self, sigma: Any) -> Any:
        knots, log_alpha = self.knots, -0.5 * (sigma**2).log1p()
        torch = importlib.import_module("torch")
        right = torch.searchsorted(-knots, -log_alpha.detach()).clamp(1, len(knots) - 1)
        a, b = knots[right - 1], knots[right]
        return right - 1 + (log_alpha - a) / (b - a)


def _check_table(knots: Any) -> None:
    if knots.ndim != 1 or len(knots) < 2 or not (np.diff(knots) < 0).all():
        raise ValueError("sigma_to_t is a list of the levels of timesteps 0, 1, 2, …: two or more, and rising")


def _samples(values: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Tensors of any kind as an array `[n, *shape]`."""
    array = _numbers(values)
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        raise ValueError(f"{what} has shape {list(array.shape)}, not [n, {', '.join(map(str, shape))}]")
    return array


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values, np.float64)
