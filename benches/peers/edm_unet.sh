#!/bin/sh
# One call of the EDM CIFAR-10 network, with and without input gradient: this program against PyTorch eager, f32, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/edm_unet.sh [ROUNDS]
#
# The sides take turns, so that a busy machine slows both; the best of all rounds counts.
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-3}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for round in $(seq "$ROUNDS"); do
    for batch in 8 1; do
        for what in forward gradient; do
            "$BIN" bench --model random:edm-cifar10 --what "$what" --batch "$batch" --threads 2 --repeats 5 --json >>"$WORK/ours.$batch.$what" 2>/dev/null
            "$PYTHON" benches/peers/edm_unet.py --what "$what" --batch "$batch" --threads 2 --runs 5 >>"$WORK/torch.$batch.$what"
        done
    done
done
"$PYTHON" - "$WORK" <<'END'
import json, sys
for batch in (8, 1):
    for what in ("forward", "gradient"):
        sides = [[json.loads(line) for line in open(f"{sys.argv[1]}/{side}.{batch}.{what}")] for side in ("ours", "torch")]
        time = [min(run["ms_per_image"] for run in side) for side in sides]
        peak = [min(round(run.get("peak_bytes", 0) / 1e6) or run["peak_mb"] for run in side) for side in sides]
        print(json.dumps({"batch": batch, "what": what, "dyweight_ms": round(time[0], 1), "torch_ms": round(time[1], 1),
                          "ratio": round(time[1] / time[0], 2), "dyweight_mb": peak[0], "torch_mb": peak[1]}))
END
