#!/bin/sh
# Features of Inception-v3: this program against PyTorch eager, f32, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/inception.sh FILE.pt [ROUNDS]
#
# FILE.pt is the TorchScript file that tools/fetch_inception.sh gets. The sides take turns, so that a busy machine slows both; the
# best of all rounds and batches (8 and 32) counts, for PyTorch in its default memory layout and in the one that suits it better.
# Ours includes the resizing. A round takes two to three minutes.
set -eu
FILE=$(realpath "$1")
ROUNDS=${2:-3}
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
BIN=${BIN:-target/release/dyweight}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for round in $(seq "$ROUNDS"); do
    for what in forward gradient; do
        for batch in 8 32; do
            "$BIN" bench --inception "$FILE" --what "$what" --batch "$batch" --threads 2 --repeats 3 --json >>"$WORK/ours.$what"
            for layout in contiguous channels-last; do
                "$PYTHON" -W ignore benches/peers/inception.py "$FILE" --what "$what" --batch "$batch" --threads 2 --runs 3 \
                    --memory-format "$layout" >>"$WORK/torch.$what"
            done
        done
    done
    "$PYTHON" - "$WORK" "$round" <<'END'
import json, sys
load = lambda name: [json.loads(line) for line in open(f"{sys.argv[1]}/{name}")]
for what in ("forward", "gradient"):
    ours = min(r["ms_per_image"] for r in load(f"ours.{what}"))
    for layout in ("contiguous", "channels-last"):
        torch = min(r["ms_per_image"] for r in load(f"torch.{what}") if r["memory_format"] == layout)
        print(json.dumps({"rounds": int(sys.argv[2]), "what": what, "dyweight_ms": round(ours, 1), "torch_ms": torch,
                          "torch": layout, "ratio": round(torch / ours, 2)}), flush=True)
END
done
