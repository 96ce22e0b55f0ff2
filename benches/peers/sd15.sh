#!/bin/sh
# Stable Diffusion 1.5 in its real size: a call of the U-Net with and without input gradient, and decoding to 512x512; this program
# against PyTorch eager in f32 and bf16, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/sd15.sh [ROUNDS]
#
# The sides take turns, so that a busy machine slows all; the best of all rounds counts.
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-1}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for round in $(seq "$ROUNDS"); do
    for case in forward.1 forward.2 gradient.1 gradient.2 decode.1; do
        what=${case%.*} batch=${case#*.}
        "$BIN" bench --model random:sd15 --what "$what" --batch "$batch" --threads 2 --repeats 3 --json >>"$WORK/ours.$case" 2>/dev/null
        for precision in f32 bf16; do
            "$PYTHON" benches/peers/sd15.py --what "$what" --batch "$batch" --threads 2 --runs 3 --precision $precision >>"$WORK/$precision.$case"
        done
    done
done
"$PYTHON" - "$WORK" <<'END'
import json, sys
for case in ("forward.1", "forward.2", "gradient.1", "gradient.2", "decode.1"):
    runs = {side: [json.loads(line) for line in open(f"{sys.argv[1]}/{side}.{case}")] for side in ("ours", "f32", "bf16")}
    time = {side: min(run["ms_per_image"] for run in all) for side, all in runs.items()}
    peak = {side: min(round(run.get("peak_bytes", 0) / 1e6) or run["peak_mb"] for run in all) for side, all in runs.items()}
    print(json.dumps({"case": case, "ms_per_image": {k: round(v, 1) for k, v in time.items()}, "peak_mb": peak,
                      "against_f32": round(time["f32"] / time["ours"], 2), "against_bf16": round(time["bf16"] / time["ours"], 2)}))
END
