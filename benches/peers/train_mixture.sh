#!/bin/sh
# Training iterations per second on a closed-form mixture: this program against the same loop in PyTorch eager.
#
#     cargo build --release && PYTHON=python3 benches/peers/train_mixture.sh [NFE] [ROUNDS]
#
# The sides take turns, so that a busy machine slows both; the best of ROUNDS counts. PyTorch (f32) is run on one thread and on two, and
# the better of these counts too; this program computes in f64 on two. On a machine that is busy with other work the ratio of
# processor time is the steadier figure; it compares single cores.
set -eu
cd "$(dirname "$0")/../.."
NFE=${1:-3}
ROUNDS=${2:-5}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
MIXTURE=crates/dyweight/tests/data/mixture48.safetensors
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# Runs a command that prints one JSON line, and adds the processor time it took.
measure() {
    "$PYTHON" -c 'import json, resource, subprocess, sys
facts = json.loads(subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
facts.setdefault("cpu_seconds", used.ru_utime + used.ru_stime)
print(json.dumps(facts))' "$@"
}

for round in $(seq "$ROUNDS"); do
    measure "$BIN" train --plain --model "$MIXTURE" --shape 3,4,4 --nfe "$NFE" --afs --batch 16 --iters 3000 --lr 0.03 --threads 2 \
        --out "$WORK/ours.json" --json >>"$WORK/ours"
    for threads in 1 2; do
        measure "$PYTHON" benches/peers/train_mixture.py "$MIXTURE" --nfe "$NFE" --iterations 100 --threads "$threads" >>"$WORK/peer"
    done
done

"$PYTHON" - "$WORK" "$NFE" <<'END'
import json, sys
work, nfe = sys.argv[1:]
ours, peers = ([json.loads(line) for line in open(f"{work}/{side}")] for side in ("ours", "peer"))


def best(runs, seconds):
    return max(run["iterations"] / run[seconds] for run in runs)


wall, cpu = ([best(side, seconds) for side in (ours, peers)] for seconds in ("seconds", "cpu_seconds"))
print(json.dumps({
    "nfe": int(nfe), "dyweight_per_second": round(wall[0], 1), "torch_per_second": round(wall[1], 1),
    "ratio": round(wall[0] / wall[1], 1), "ratio_of_processor_time": round(cpu[0] / cpu[1], 1),
    "torch": peers[0]["torch"], "rounds": len(ours),
}))
END
