#!/bin/sh
# Training iterations per second on a closed-form mixture: this program against the same loop in PyTorch eager.
#
#     cargo build --release && PYTHON=python3 benches/peers/train_mixture.sh [NFE] [ROUNDS]
#
# The sides take turns, so that a busy machine slows both; the best of ROUNDS counts. PyTorch (f32) is run on one thread and on two, and
# the better of these counts too; this program computes in f64 on two.
set -eu
cd "$(dirname "$0")/../.."
NFE=${1:-3}
ROUNDS=${2:-5}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
MIXTURE=crates/dyweight/tests/data/mixture48.safetensors
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

for round in $(seq "$ROUNDS"); do
    "$BIN" train --plain --model "$MIXTURE" --shape 3,4,4 --nfe "$NFE" --afs --batch 16 --iters 3000 --lr 0.03 --threads 2 \
        --out "$WORK/ours.json" --json >>"$WORK/ours" 2>/dev/null
    for threads in 1 2; do
        "$PYTHON" benches/peers/train_mixture.py "$MIXTURE" --nfe "$NFE" --iterations 100 --threads "$threads" >>"$WORK/peer"
    done
done

"$PYTHON" - "$WORK" "$NFE" <<'END'
import json, sys
work, nfe = sys.argv[1:]
ours = max(r["iterations"] / r["seconds"] for r in map(json.loads, open(f"{work}/ours")))
peers = [json.loads(line) for line in open(f"{work}/peer")]
peer = max(peers, key=lambda r: r["iterations_per_second"])
theirs = peer["iterations_per_second"]
print(json.dumps({
    "nfe": int(nfe), "dyweight_per_second": round(ours, 1), "torch_per_second": round(theirs, 1), "ratio": round(ours / theirs, 1),
    "torch": peer["torch"], "torch_threads": peer["threads"], "rounds": len(peers) // 2,
}))
END
