#!/bin/sh
# FLUX in its real width (3072) with two double and four single blocks on 1024 image and 512 text tokens, with and without input gradient,
# and two layers of T5 XXL on 512 tokens; bf16 weights from a mapped file against PyTorch eager in f32 and bf16, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/flux.sh [ROUNDS] [DIR]
#
# The sides take turns, so that a busy machine slows all; the best of all rounds counts. DIR keeps the files (3.5 GB).
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-1}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
DIR=${2:-$WORK/model}
[ -f "$DIR/ids.safetensors" ] || "$PYTHON" benches/peers/flux.py make "$DIR"
for round in $(seq "$ROUNDS"); do
    for what in forward gradient text; do
        case $what in
        text) "$BIN" probe --model "$DIR/text_encoder_2" --part text2 --input "$DIR/ids.safetensors" --out "$WORK/out.safetensors" --threads 2 --json ;;
        *) "$BIN" bench --model "$DIR" --shape 16,64,64 --what "$what" --batch 1 --threads 2 --repeats 2 --json ;;
        esac >>"$WORK/ours.$what" 2>/dev/null
        for precision in f32 bf16; do
            "$PYTHON" benches/peers/flux.py "$what" "$DIR" --threads 2 --runs 2 --precision $precision 2>/dev/null >>"$WORK/$precision.$what"
        done
    done
done
"$PYTHON" - "$WORK" <<'END'
import json, sys
for what in ("forward", "gradient", "text"):
    runs = {side: [json.loads(line) for line in open(f"{sys.argv[1]}/{side}.{what}")] for side in ("ours", "f32", "bf16")}
    time = {side: min(run.get("ms") or 1e3 * run["seconds"] for run in all) for side, all in runs.items()}
    peak = {side: min(run.get("peak_mb") or round(run.get("peak_bytes", 0) / 1e6) for run in all) for side, all in runs.items()}
    print(json.dumps({"case": what, "ms": {k: round(v, 1) for k, v in time.items()}, "peak_mb": peak,
                      "against_f32": round(time["f32"] / time["ours"], 2), "against_bf16": round(time["bf16"] / time["ours"], 2)}))
END
