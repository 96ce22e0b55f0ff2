#!/bin/sh
# CLIP's image towers ViT-B/32, ViT-L/14 and ViT-H/14 in their real size with random weights, batch 8: this program against PyTorch
# eager in f32, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/clip.sh [ROUNDS [WHAT [MODEL…]]]
#
# WHAT is forward or gradient. The sides take turns, so that a busy machine slows both; the best of all rounds counts. On a machine that
# others use, too, the processor time of all threads is the steadier measure; both are printed.
set -eu
cd "$(dirname "$0")/../.."
ROUNDS=${1:-1}
WHAT=${2:-forward}
[ $# -gt 2 ] && shift 2 || set -- vit-b-32 vit-l-14 vit-h-14
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for round in $(seq "$ROUNDS"); do
    for model in "$@"; do
        "$BIN" bench --clip "random:$model" --what "$WHAT" --batch 8 --threads 2 --repeats 3 --json >>"$WORK/ours.$model" 2>/dev/null
        "$PYTHON" benches/peers/clip.py --model "$model" --what "$WHAT" --batch 8 --threads 2 --runs 3 >>"$WORK/torch.$model"
    done
    "$PYTHON" - "$WORK" "$round" "$WHAT" "$@" <<'END'
import json, sys
work, round, what, *models = sys.argv[1:]
load = lambda name: [json.loads(line) for line in open(f"{work}/{name}")]
for model in models:
    ours, torch = load(f"ours.{model}"), load(f"torch.{model}")
    a, b = (min(run["ms_per_image"] for run in runs) for runs in (ours, torch))
    busy, torch_busy = (1e3 * min(run["processor_seconds"] for run in runs) / 8 for runs in (ours, torch))
    peaks = [min(run["peak_bytes"] for run in ours) // 10**6, min(run["peak_mb"] for run in torch)]
    print(json.dumps({"rounds": int(round), "model": model, "what": what, "dyweight_ms": float(f"{a:.1f}"),
                      "torch_ms": float(f"{b:.1f}"), "ratio": float(f"{b / a:.2f}"),
                      "processor_ms": [float(f"{busy:.1f}"), float(f"{torch_busy:.1f}")], "processor_ratio": float(f"{torch_busy / busy:.2f}"),
                      "peak_mb": peaks}), flush=True)
END
done
