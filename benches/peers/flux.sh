#!/bin/sh
# FLUX in its real width (3072) with two double and four single blocks on 1024 image and 512 text tokens, with and without input gradient,
# and two layers of T5 XXL on 512 tokens; bf16 weights from a mapped file, computed in f32 and, where the processor has it, in bf16, against
# PyTorch eager in f32 and bf16, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/flux.sh [ROUNDS] [DIR]
#
# The sides take turns, so that a busy machine slows all; the best of all rounds counts. On a machine that others use, too, the processor time of all
# threads is the steadier measure, with THREADS=1 most of all (threads of PyTorch wait for each other by running). DIR keeps the files (3.5 GB).
# CASES and RUNS choose what to measure and how often in a round.
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-1}
CASES=${CASES:-forward gradient text}
RUNS=${RUNS:-2}
THREADS=${THREADS:-2}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
DIR=${2:-$WORK/model}
[ -f "$DIR/ids.safetensors" ] || "$PYTHON" benches/peers/flux.py make "$DIR"
precisions=f32
"$BIN" inspect "$DIR" --precision bf16 >/dev/null 2>&1 && precisions="f32 bf16"
for round in $(seq "$ROUNDS"); do
    for what in $CASES; do
        for precision in $precisions; do
            case $what in
            text) "$BIN" probe --model "$DIR/text_encoder_2" --part text2 --input "$DIR/ids.safetensors" --out "$WORK/out.safetensors" --threads "$THREADS" --precision $precision --json ;;
            *) "$BIN" bench --model "$DIR" --shape 16,64,64 --what "$what" --batch 1 --threads "$THREADS" --repeats "$RUNS" --precision $precision --json ;;
            esac >>"$WORK/ours-$precision.$what" 2>/dev/null
        done
        for precision in f32 bf16; do
            "$PYTHON" benches/peers/flux.py "$what" "$DIR" --threads "$THREADS" --runs "$RUNS" --precision $precision 2>/dev/null >>"$WORK/torch-$precision.$what"
        done
    done
done
"$PYTHON" - "$WORK" $CASES <<'END'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
for what in sys.argv[2:]:
    sides = [f"{whose}-{precision}" for precision in ("f32", "bf16") for whose in ("ours", "torch")]
    files = {side: work / f"{side}.{what}" for side in sides}
    runs = {side: [json.loads(line) for line in file.open()] for side, file in files.items() if file.exists()}
    time = {side: min(run.get("ms") or 1e3 * run["seconds"] for run in all) for side, all in runs.items()}
    # Of the text encoder ours is one call, opening included.
    busy = {side: min(run["processor_seconds"] for run in all) for side, all in runs.items()}
    peak = {side: min(run.get("peak_mb") or round(run.get("peak_bytes", 0) / 1e6) for run in all) for side, all in runs.items()}
    ratio = {precision: [round(of[f"torch-{precision}"] / of[f"ours-{precision}"], 2) for of in (time, busy)]
             for precision in ("f32", "bf16") if f"ours-{precision}" in time}
    print(json.dumps({"case": what, "ms": {k: round(v, 1) for k, v in time.items()}, "processor_seconds": busy, "peak_mb": peak, "ratio": ratio}))
END
