"""How many pipelines of diffusers a solver is learned for, without a hub: `python python/families.py [--only NAME …]`.

    python python/families.py                                       the kinds made by tests/made.py
    DIFFUSERS_CHECKOUT=/path python python/families.py --out DIR    also all whose own tests can make tiny components
    python python/families.py --out DIR --table                     what is known, as Markdown

Every family has a process of its own, a time limit and a line in a file of its own in the folder; the same command goes on
where it stopped. A family is looked at twice.

1. With the exact network of N(0, 0.5²) in place of its own, refined until the answer is clear: right is a sampler that ends
   where diffusers' own first-order steps end, from pure noise at standard deviation 0.5.
2. With its tiny random network: learned for five evaluations, then compared on fresh noise with its own scheduler,
   DPM-Solver++(2M) and UniPC, all at five evaluations, with twice the reference's steps beside it as the reference's error.

The table says right, refused (with the sentence) or wrong; "agrees" where no exact network can be put in place, and ours
takes the steps that diffusers' own scheduler takes. Nothing is downloaded: tokenisers, text encoders and processors that
diffusers' tests take from a hub are made here. These tests need `pip install parameterized requests-mock`.
"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
# The installed package is looked at, not the source beside this file, which has no compiled part.
sys.path[:] = [str(HERE / "tests"), *(path for path in sys.path if Path(path or ".").resolve() != HERE)]

#: What is spent on one family: enough to learn 19 parameters, little enough for two hundred families.
EFFORT = {"pairs": 2, "validation_pairs": 1, "test_pairs": 2, "iterations": 2, "reference_steps": 50}
STEPS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--out", type=Path, default=Path("families"), help="folder of results: goes on where it stopped")
    parser.add_argument("--exact", action="store_true", help="the exact network alone: nothing is learned")
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--seconds", type=int, default=300, help="of processor time, for one family")
    parser.add_argument("--table", action="store_true", help="prints what is known, and runs nothing")
    parser.add_argument("--schedulers", choices=["table", "flow"], help="each under every scheduler of this kind")
    parser.add_argument("--seed", type=int, default=0, help="of the random networks")
    parser.add_argument("--larger", action="store_true", help="networks or pictures of twice the size")
    options = parser.parse_args()
    os.environ.update(TINY_WIDTH="16" if options.larger else "8")
    names = [n for n in all_names() if not options.only or any(part in n for part in options.only)]
    if options.schedulers:
        from variants import VARIANTS

        names = [f"{n} @ {options.schedulers}: {variant}" for n in names for variant in VARIANTS[options.schedulers]]
    if not options.table:
        options.out.mkdir(parents=True, exist_ok=True)
        run(names, options)
    found = known(options.out)
    print(table([found[n] for n in names if n in found]))
    return int(any(row["state"] in ("wrong", "failed") for row in found.values()))


def known(folder):
    """Results by family."""
    rows = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return {row["family"]: row for row in rows}


def run(names, options):
    """One family after the other, each in a process of its own."""
    import diffusers  # noqa: F401  imported once: the processes are copies of this one
    import transformers  # noqa: F401

    import dyweight.pipelines  # noqa: F401

    kept = {} if options.again else known(options.out)
    for name in names:
        if name in kept and kept[name]["state"] != "not made" and (options.exact or kept[name].get("learned")):
            continue
        path = options.out / (re.sub(r"\W+", "-", name) + ".json")
        looked = kept.get(name, {}) if kept.get(name, {}).get("state") in ("right", "agrees") else {}
        process = multiprocessing.get_context("fork").Process(target=_work, args=(name, path, options, looked))
        begun = time.time()
        process.start()
        process.join()
        if not path.exists() or path.stat().st_mtime < begun:
            late = process.exitcode == -signal.SIGXCPU
            why = f"took more than {options.seconds} s" if late else f"the process ended with {process.exitcode}"
            _write(path, {"family": name, "state": "failed", "why": why, "learned": True})
        print(_row(json.loads(path.read_text(encoding="utf-8"))), flush=True)


def _work(name, path, options, looked):
    resource.setrlimit(resource.RLIMIT_CPU, (options.seconds, options.seconds + 5))
    learn = not options.exact
    try:
        found = look_at(name, learn, looked, options.seed, options.larger)
    except BaseException as error:  # a line for every family
        found = {"family": name, "state": "failed", "why": _sentence(error), "trace": traceback.format_exc()[-1500:]}
    _write(path, {**found, "learned": learn})


def _write(path, found):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found) + "\n", encoding="utf-8")
    partial.replace(path)


# --- the table ---


def table(found):
    """Everything as Markdown, and how many there are of each kind."""
    head = "| pipeline | scheduler | state | exact | learned | own | DPM-Solver++ | UniPC | reference |"
    return "\n".join([head, "| --- " * 9 + "|", *map(_row, found), "", *_counts(found)])


def _counts(found):
    states = [row["state"] for row in found]
    lines = [", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))]
    rows = [row for row in found if row.get("distances")]
    if rows:
        lines += [
            f"learned for {len(rows)}, closer than its own scheduler on {sum(_ahead(r, None) for r in rows)}, than UniPC on"
            f" {sum(_ahead(r, 'UniPC') for r in rows)} of {sum('UniPC' in r['distances'] for r in rows)},"
            f" by more than the reference's own error on {sum(_ahead(r, 'UniPC', clear=True) for r in rows)}"
        ]
    return lines


def _ahead(row, rival, clear=False):
    d = row["distances"]
    other = next(iter(d.values())) if rival is None else d.get(rival)
    return other is not None and d["learned"] + (row.get("reference_error", 0.0) if clear else 0.0) < other


def _row(found):
    d = found.get("distances", {})
    own = next(iter(d.values()), None)
    cells = [d.get("learned"), own, d.get("DPM-Solver++(2M)"), d.get("UniPC"), found.get("reference_error")]
    numbers = ["" if v is None else f"{v:.4f}" for v in cells]
    state = found["state"] + (f": {found['why']}" if found.get("why") else "")
    name = re.sub(r"/test_(pipeline_)?|::.*", lambda m: ": " if m[0].startswith("/") else "", found["family"])
    scheduler = found.get("scheduler", "").removesuffix("Scheduler")
    return "| " + " | ".join([name, scheduler, state, found.get("exact", ""), *numbers]) + " |"


# --- one family ---


def look_at(name, learn, looked=None, seed=0, larger=False):
    """What is found of one family; `looked` is what the exact network has shown already."""
    warnings.filterwarnings("ignore")
    import diffusers
    import torch

    diffusers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    found, begun = {"family": name, **(looked or {})}, time.process_time()
    try:
        pipe, call = make(name, seed, larger)
    except Exception as error:  # whatever diffusers' tests need that is not here
        return {**found, "state": "not made", "why": _sentence(error), "trace": traceback.format_exc()[-1500:]}
    found["scheduler"] = type(getattr(pipe, "scheduler", None)).__name__
    for part in [*([] if looked else [with_exact_network]), *([with_its_own] if learn else [])]:
        try:
            found.update(part(pipe, call))
        except (ValueError, NotImplementedError, FloatingPointError) as error:
            found.update(state="refused", why=_sentence(error), trace=traceback.format_exc()[-1500:])
        except Exception as error:
            found.update(state="failed", why=_sentence(error), trace=traceback.format_exc()[-1500:])
        if found["state"] in ("refused", "failed", "wrong"):
            break
    return {**found, "seconds": round(time.process_time() - begun, 1)}


def _sentence(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def with_exact_network(pipe, call):
    """Right or wrong with the exact network; where that cannot be put in place, by the check before learning."""
    from dyweight.black_box import BlackBox
    from dyweight.learning import check, setting_of
    from exact import Exact, NoExactNetwork

    box = BlackBox(pipe, [call], {})
    with box.borrowed():
        setting = setting_of(box, STEPS, 20, (0, 0))
        agreement = check(setting, (0, 0))
    found = {"agreement": agreement, "state": "agrees"}
    try:
        with Exact(pipe, call, setting) as exact:
            is_right, says = exact.verdict()
    except NoExactNetwork as error:
        return {**found, "exact_why": str(error)}
    return {**found, "exact": says, "state": "right" if is_right else "wrong"}


def with_its_own(pipe, call):
    """Learns, and says what `few_steps` found on fresh noise."""
    from dyweight.pipelines import few_steps

    own = pipe.scheduler
    with tempfile.TemporaryDirectory() as cache:
        found = few_steps(pipe, STEPS, conditions=[call], progress=False, cache=cache, **EFFORT)
        pipe.scheduler = own
        kept = {} if found.is_set else {"why": "another scheduler is closer, which is said"}
        error = reference_error(pipe, call, cache)
    return {**kept, "distances": found.distances, "start": found.start, "reference_error": error}


def reference_error(pipe, call, cache):
    """How far the reference still moves when its steps are doubled."""
    from dyweight.black_box import BlackBox
    from dyweight.learning import Lab, distance, setting_of

    box = BlackBox(pipe, [call], {})
    with box.borrowed():
        ends = []
        for steps in (EFFORT["reference_steps"], 2 * EFFORT["reference_steps"]):
            lab = Lab(setting_of(box, STEPS, steps, (0, 0)), None, Path(cache), lambda _: None)
            ends.append(lab._target((0, 200_000)))
    return distance(*ends)


# --- components ---


def all_names():
    """Families by name: those made here, and those of the checkout's tests."""
    import stand_ins
    from made import MADE

    checkout = os.environ.get("DIFFUSERS_CHECKOUT")
    return [*(f"made:{name}" for name in MADE), *(stand_ins.fixtures(_checkout()) if checkout else [])]


def make(name, seed=0, larger=False):
    """A pipeline and what it is called with."""
    import stand_ins
    import torch
    from made import MADE
    from variants import VARIANTS

    name, _, variant = name.partition(" @ ")
    kept = torch.manual_seed
    torch.manual_seed = lambda given: kept(given + seed)
    try:
        pipe, call = MADE[name[5:]]() if name.startswith("made:") else stand_ins.from_fixture(_checkout(), name)
    finally:
        torch.manual_seed = kept
    if larger and not name.startswith("made:"):
        call = {k: 2 * v if k in ("height", "width") and isinstance(v, int) else v for k, v in call.items()}
    if variant:
        kind, _, which = variant.partition(": ")
        pipe.scheduler = VARIANTS[kind][which](pipe.scheduler)
    return pipe, call


def _checkout():
    return Path(os.environ["DIFFUSERS_CHECKOUT"])


if __name__ == "__main__":
    sys.exit(main())
