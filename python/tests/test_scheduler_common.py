"""diffusers' own common tests of schedulers, run against ours: DIFFUSERS_CHECKOUT says where they are.

Each kind of process takes them all but those in `CANNOT`, which say why.
"""

import os
import sys
import unittest
from pathlib import Path

import diffusers
import pytest

from dyweight.diffusers import DyWeightScheduler

CHECKOUT = os.environ.get("DIFFUSERS_CHECKOUT")
STEPS = 8
SD = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
# Kind: the scheduler that is replaced, the first level, the last.
KINDS = {
    "epsilon": (diffusers.EulerDiscreteScheduler(**SD), 14.0, 0.03),
    "v": (diffusers.DDIMScheduler(**SD, prediction_type="v_prediction", clip_sample=False), 14.0, 0.03),
    "flow": (diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0), 1.0, 0.0),
    "EDM": (diffusers.EDMEulerScheduler(), 80.0, 0.002),
}
NO_TABLE = "this process has no noise table, so there are no betas to train"
UNSCALED = "it steps without scale_model_input, which a preconditioned network cannot be used without: ours refuses"
#: Tests that cannot apply, by kind: the reason.
CANNOT = {
    "flow": {"test_trained_betas": NO_TABLE},
    "EDM": {
        "test_trained_betas": NO_TABLE,
        **dict.fromkeys(["test_from_save_pretrained", "test_step_shape", "test_scheduler_outputs_equivalence"], UNSCALED),
    },
}
if CHECKOUT is None:
    print("SKIPPED: diffusers' common scheduler tests: DIFFUSERS_CHECKOUT names no checkout", file=sys.stderr)


def settings(kind, **more):
    """What makes our scheduler for a kind of process."""
    own, top, low = KINDS[kind]
    flow = kind == "flow"
    solver = {
        "format": "dyweight-solver", "version": 2, "method": "dyweight", "nfe": STEPS, "steps": STEPS, "afs": False,
        "prediction": "velocity" if flow else "denoised", "sigma_min": low, "sigma_max": top,
        "schedule": {"kind": "explicit", "sigmas": [top + i / STEPS * (low - top) for i in range(STEPS + 1)]},
        "body": {
            "order": 2, "time_shift": True, "weights": [[1.0], *[[-0.4, 1.4]] * (STEPS - 1)], "time_scale": [1.0] * STEPS
        },
    }  # fmt: skip
    return {"solver": solver, "own": {"_class_name": type(own).__name__, **own.config, **more}, **more}


def common():
    """The class of diffusers' tests."""
    sys.path.insert(0, CHECKOUT)
    from tests.schedulers.test_schedulers import SchedulerCommonTest

    return SchedulerCommonTest


def names():
    """Its tests, read from its text: importing it takes a checkout's other requirements."""
    if CHECKOUT is None:
        return ["the common tests"]
    text = (Path(CHECKOUT) / "tests/schedulers/test_schedulers.py").read_text(encoding="utf-8")
    body = text.partition("class SchedulerCommonTest")[2].partition("\nclass ")[0]
    return [line.split("(")[0].removeprefix("    def ") for line in body.splitlines() if line.startswith("    def test_")]


@pytest.mark.skipif(CHECKOUT is None, reason="DIFFUSERS_CHECKOUT names no checkout of diffusers")
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("kind", KINDS)
def test_it_passes_for_one_of_diffusers_own(kind, name):
    if name in CANNOT.get(kind, {}):
        pytest.skip(CANNOT[kind][name])

    class Common(common()):
        scheduler_classes = (DyWeightScheduler,)
        forward_default_kwargs = (("num_inference_steps", STEPS),)
        default_num_inference_steps = STEPS

        def get_scheduler_config(self, **more):
            return settings(kind, **more)

    result = unittest.TestResult()
    Common(name).run(result)
    assert not result.failures and not result.errors, "\n".join(text for _, text in [*result.failures, *result.errors])
