#!/bin/sh
# Stable Diffusion 1.5 in its real size: a call of the U-Net with and without input gradient, and decoding to 512x512; this program
# against PyTorch eager in f32 and bf16, 2 threads, and against OpenVINO where there are no gradients (PRECISIONS="openvino openvino-bf16").
#
#     cargo build --release && PYTHON=python3 benches/peers/sd15.sh [ROUNDS]
#
# The sides take turns, so that a busy machine slows all; the best of all rounds counts. On a machine that others use, too, the processor
# time of all threads is the steadier measure; both are printed. CASES, PRECISIONS and RUNS choose what to measure, against what, and how often in a
# round; OURS is the precision of this program (bf16 where the processor has it), THREADS how many.
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-1}
CASES=${CASES:-forward.1 forward.2 gradient.1 gradient.2 decode.1}
PRECISIONS=${PRECISIONS:-f32 bf16}
RUNS=${RUNS:-3}
OURS=${OURS:-f32}
THREADS=${THREADS:-2}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for round in $(seq "$ROUNDS"); do
    for case in $CASES; do
        what=${case%.*} batch=${case#*.}
        "$BIN" bench --model random:sd15 --what "$what" --batch "$batch" --threads "$THREADS" --repeats "$RUNS" --precision "$OURS" --json >>"$WORK/ours.$case" 2>/dev/null
        for precision in $PRECISIONS; do
            "$PYTHON" benches/peers/sd15.py --what "$what" --batch "$batch" --threads "$THREADS" --runs "$RUNS" --precision $precision >>"$WORK/$precision.$case"
        done
    done
done
"$PYTHON" - "$WORK" "$PRECISIONS" $CASES <<'END'
import json, sys
peers = sys.argv[2].split()
for case in sys.argv[3:]:
    runs = {side: [json.loads(line) for line in open(f"{sys.argv[1]}/{side}.{case}")] for side in ("ours", *peers)}
    batch = int(case.split(".")[1])
    time = {side: min(run["ms_per_image"] for run in all) for side, all in runs.items()}
    processor = {side: 1e3 * min(run["processor_seconds"] for run in all) / batch for side, all in runs.items()}
    peak = {side: min(round(run.get("peak_bytes", 0) / 1e6) or run["peak_mb"] for run in all) for side, all in runs.items()}
    ratio = lambda of, side: round(of[side] / of["ours"], 2)
    rounded = lambda of: {k: round(v, 1) for k, v in of.items()}
    print(json.dumps({"case": case, "ms_per_image": rounded(time), "processor_ms_per_image": rounded(processor), "peak_mb": peak,
                      **{f"against_{peer}": [ratio(time, peer), ratio(processor, peer)] for peer in peers}}))
END
