#!/usr/bin/env python3
"""Memory: what `--dry-run` forecasts against what the run then holds at most.

    benches/memory.py [--program target/release/dyweight] [--only TEXT] [--peaks FILE]

Every case is forecast, then run; its peak is the process's largest resident set (`wait4`). Prints a table, and ends
with 1 if a forecast is more than a quarter away. `--peaks` keeps measured peaks in a file, so that a case that was
run is not run again."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TINY = str(pathlib.Path(__file__).resolve().parents[1] / "crates/dyweight-models/tests/data/latent")
PAPER = "--recipe paper --teacher-nfe 12"
CIFAR = "random:edm-cifar10"
CASES = [
    "sample --model mixture --nfe 5 --seeds 0-999",
    "sample --model mixture --nfe 5 --seeds 0-999999",
    "sample --model mixture --nfe 5 --seeds 0-4999999",
    "sample --model mixture --nfe 5 --seeds 0-299999 --trajectory t.safetensors",
    "sample --model fashion --nfe 3 --seeds 0-1999",
    "sample --model fashion --nfe 3 --seeds 0-1023 --batch 512",
    "sample --model fashion --nfe 3 --seeds 0-999 --trajectory t.safetensors",
    f"sample --model {CIFAR} --nfe 1 --seeds 0-1 --batch 2",
    f"sample --model {CIFAR} --nfe 1 --seeds 0-15 --batch 16",
    f"sample --model {CIFAR} --nfe 1 --seeds 0-63",
    f"sample --model {CIFAR} --nfe 1 --seeds 0-15 --batch 16 --precision bf16",
    f"sample --model {TINY} --height 64 --width 64 --prompt cat --nfe 2 --solver euler --seeds 0-7",
    "train --model mixture --nfe 5",
    f"train --model mixture --nfe 5 {PAPER} --iters 2000 --validation 4096",
    f"train --model mixture --nfe 5 {PAPER} --iters 50 --batch 20000 --validation 20000",
    "train --model mixture --nfe 9 --pairs 20000 --validation 20000 --iters 2",
    "train --model fashion --nfe 3 --iters 2",
    f"train --model fashion --nfe 5 {PAPER} --iters 4 --batch 64",
    f"train --model fashion --nfe 5 {PAPER} --iters 4 --batch 64 --memory keep",
    f"train --model fashion --nfe 5 {PAPER} --iters 4 --batch 16 --optimiser newton --span wide",
    f"train --model fashion --nfe 3 {PAPER} --iters 3 --batch 8 --loss frechet --moments 512",
    f"train --model {CIFAR} --nfe 3 {PAPER} --iters 1 --batch 2 --validation 2",
    f"train --model {CIFAR} --nfe 3 {PAPER} --iters 1 --batch 2 --validation 2 --memory keep",
    "compare --model mixture --nfe 5 --solvers ipndm,dpmpp --no-search --seeds 0-1999",
    "compare --model mixture --nfe 5 --solvers ipndm,dpmpp --no-search --seeds 0-499999",
    "compare --model fashion --nfe 3 --solvers ipndm --no-search --seeds 0-511 --teacher-nfe 6",
    "compare --model fashion --nfe 3 --solvers ipndm --no-search --seeds 0-511 --teacher-nfe 6 --batch 512",
    "study order --model mixture --quick",
    # Sizes that nothing was fitted to.
    "sample --model fashion --nfe 2 --seeds 0-299 --batch 37",
    f"sample --model {CIFAR} --nfe 1 --seeds 0-22 --batch 23",
    f"train --model fashion --nfe 4 {PAPER} --iters 2 --batch 24",
    "train --model mixture --nfe 4 --pairs 5000 --validation 5000 --iters 2",
    "compare --model mixture --nfe 4 --solvers ipndm,euler --no-search --seeds 0-49999 --teacher-nfe 9",
]


def forecast(program, words, folder):
    ran = subprocess.run([program, *words, "--dry-run", "--json"], cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        return None, ran.stderr.strip().splitlines()[0]
    return json.loads(ran.stdout)["peak_bytes"], ""


def peak(program, words, folder):
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([program, *words], cwd=folder, **streams)
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(words)}: {said}")
    return used.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/dyweight")
    parser.add_argument("--only", default="")
    parser.add_argument("--peaks")
    args = parser.parse_args()
    program = str(pathlib.Path(args.program).resolve())
    known = json.loads(pathlib.Path(args.peaks).read_text()) if args.peaks and os.path.exists(args.peaks) else {}
    print("| command | forecast, MB | measured, MB | off by |\n|---|---|---|---|")
    worst = 0.0
    for case in CASES:
        if args.only not in case:
            continue
        with tempfile.TemporaryDirectory() as folder:
            words = [*case.split(), "--out", {"train": "o.json"}.get(case.split()[0], "o")]
            said, problem = forecast(program, words, folder)
            name = case.replace(TINY, "LATENT")
            if name not in known:
                known[name] = peak(program, words, folder)
                if args.peaks:
                    pathlib.Path(args.peaks).write_text(json.dumps(known, indent=1))
        off = (said or 0) / known[name] - 1
        worst = max(worst, abs(off))
        sizes = f"{(said or 0) / 2**20:.0f} | {known[name] / 2**20:.0f}"
        print(f"| `{name}` | {sizes} | {100 * off:+.0f} % {problem}|", flush=True)
    print(f"\nworst: {100 * worst:.0f} %", file=sys.stderr)
    return worst > 0.25


if __name__ == "__main__":
    sys.exit(main())
