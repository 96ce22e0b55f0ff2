"""How many pipelines of diffusers a solver is learned for, without a hub: `python python/families.py [--only NAME …]`.

    python python/families.py                                     seven pipelines made by tests/stand_ins.py
    DIFFUSERS_CHECKOUT=/path python python/families.py --jobs 2   all whose own tests can make tiny components

Every family is looked at twice.

1. With the exact network of N(0, 0.5²) in place of its own: a sampler that is right ends at standard deviation 0.5.
2. With its tiny random network: learned for five evaluations, then compared on fresh noise with its own scheduler,
   DPM-Solver++(2M) and UniPC, all at five evaluations.

The table says right, refused (with the sentence) or wrong. Nothing is downloaded: tokenisers and text encoders that diffusers'
tests take from a hub are made here.
"""

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "tests"), str(HERE)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--out", type=Path, default=Path("families.jsonl"), help="goes on where it stopped")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="learn hardly anything: does it run?")
    parser.add_argument("--seconds", type=int, default=600, help="for one family")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return work(options)
    names = [n for n in all_names() if not options.only or any(part in n for part in options.only)]
    while waiting := [n for n in names if n not in known(options.out)]:
        shares = [waiting[i :: options.jobs] for i in range(min(options.jobs, len(waiting)))]
        flags = ["--out", str(options.out), "--seconds", str(options.seconds), *(["--quick"] if options.quick else [])]
        workers = [subprocess.Popen([sys.executable, __file__, *flags, "--worker", *share]) for share in shares]
        for worker, share in zip(workers, shares):
            if worker.wait() != 0:
                _write(options.out, _not_made(next((n for n in share if n not in known(options.out)), share[0]), "the process died"))
    found = known(options.out)
    print(table([found[n] for n in names]))
    return None


def known(path):
    """What a file of results holds, by family."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["family"]: row for row in map(json.loads, lines)}


def work(options):
    """Looks at one family after the other."""
    signal.signal(signal.SIGALRM, _late)
    for name in options.worker:
        signal.alarm(options.seconds)
        try:
            found = look_at(name, options.quick)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            found = _not_made(name, _sentence(error))
        signal.alarm(0)
        _write(options.out, found)
        print(_row(found), flush=True)


class _Late(BaseException):
    """Time is up."""


def _late(*_):
    raise _Late("took too long")


def _not_made(name, why):
    return {"family": name, "state": "not made", "why": why}


def _write(path, found):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


def table(found):
    """Everything as Markdown, and how many there are of each kind."""
    counts = {}
    for row in found:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    head = "| pipeline | scheduler | state | exact | learned | own | DPM-Solver++ | UniPC |"
    lines = [head, "| --- " * 8 + "|", *map(_row, found)]
    return "\n".join([*lines, "", ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))])


def _row(found):
    d = found.get("distances", {})
    own = next(iter(d.values()), None)
    cells = [d.get("learned"), own, d.get("DPM-Solver++(2M)"), d.get("UniPC")]
    numbers = ["" if v is None else f"{v:.4f}" for v in cells]
    exact = "" if found.get("exact") is None else f"{found['exact']:.3f}"
    state = found["state"] + (f": {found['why']}" if found.get("why") else "")
    return "| " + " | ".join([found["family"], found.get("scheduler", ""), state, exact, *numbers]) + " |"


# --- one family ---


def look_at(name, quick):
    warnings.filterwarnings("ignore")
    import diffusers
    import torch

    diffusers.utils.logging.set_verbosity_error()

    torch.set_num_threads(1)
    found = {"family": name}
    try:
        pipe, call = make(name)
    except Exception as error:  # whatever diffusers' tests need that is not here
        return {**found, "state": "not made", "why": _sentence(error)}
    found["scheduler"] = type(getattr(pipe, "scheduler", None)).__name__
    try:
        found["exact"] = exact_end(pipe, call)
    except Exception as error:
        found["exact_why"] = _sentence(error)
    begun = time.time()
    try:
        found.update(learned(pipe, call, quick))
    except ValueError as error:
        found.update(state="refused", why=_sentence(error))
    except NotImplementedError as error:
        found.update(state="refused", why=_sentence(error))
    except Exception as error:
        found.update(state="failed", why=_sentence(error), trace=traceback.format_exc()[-1500:])
    found["seconds"] = round(time.time() - begun, 1)
    if found["state"] == "right" and found.get("exact") is not None and abs(found["exact"] - 0.5) > 0.08:
        found["state"] = "wrong"
    return found


def _sentence(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def learned(pipe, call, quick):
    """Learns, and says what `few_steps` found on fresh noise."""
    from dyweight.pipelines import few_steps

    effort = {"pairs": 1, "validation_pairs": 1, "test_pairs": 1, "iterations": 1, "reference_steps": 10} if quick else {}
    found = few_steps(pipe, 3 if quick else 5, conditions=[call], progress=False, **effort)
    why = "" if found.is_set else "another scheduler is closer, which is said"
    return {"state": "right", "why": why, "distances": found.distances, "start": found.start, "agreement": found.agreement}


# --- the exact network of N(0, 0.5²) ---


def exact_end(pipe, call, steps=60):
    """Standard deviation where our scheduler ends with the exact network; none where that cannot be put in place."""
    from exact import Exact

    with Exact(pipe, call) as exact:
        return exact.end(steps) if exact.fits else None


# --- components ---


def all_names():
    """Families by name: those made here, or those of the checkout's tests."""
    import stand_ins

    checkout = os.environ.get("DIFFUSERS_CHECKOUT")
    return stand_ins.fixtures(Path(checkout)) if checkout else [f"made:{name}" for name in stand_ins.MADE]


def make(name):
    """A pipeline and what it is called with."""
    import stand_ins

    if name.startswith("made:"):
        return stand_ins.MADE[name[5:]]()
    return stand_ins.from_fixture(Path(os.environ["DIFFUSERS_CHECKOUT"]), name)


if __name__ == "__main__":
    main()
