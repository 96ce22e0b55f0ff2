#!/bin/sh
# Features of Inception-v3: this program against PyTorch eager, f32, 2 threads.
#
#     cargo build --release && PYTHON=python3 benches/peers/inception.sh FILE.pt [ROUNDS]
#
# FILE.pt is the TorchScript file that tools/fetch_inception.sh gets. The sides take turns, so that a busy machine slows both; the
# best of all rounds, batches (8 and 32) and, for PyTorch, memory layouts and kinds of module counts. Ours includes the resizing.
# A second table has processor time on one thread, which other programs on the machine disturb less.
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
            "$BIN" bench --inception "$FILE" --what "$what" --batch "$batch" --threads 2 --repeats 5 --json >>"$WORK/ours.$what"
            for net in eager script; do
                for layout in contiguous channels-last; do
                    "$PYTHON" -W ignore benches/peers/inception.py "$FILE" --net "$net" --what "$what" --batch "$batch" --threads 2 --runs 5 \
                        --memory-format "$layout" >>"$WORK/torch.$what"
                done
            done
        done
    done
    for layout in contiguous channels-last; do
        "$PYTHON" -W ignore benches/peers/inception.py "$FILE" --batch 8 --threads 1 --runs 5 --memory-format "$layout" >>"$WORK/torch.cpu"
    done
    "$PYTHON" - "$BIN" "$FILE" >>"$WORK/ours.cpu" <<'END'
import json, resource, subprocess, sys
def seconds(repeats):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.argv[1], "bench", "--inception", sys.argv[2], "--batch", "8", "--threads", "1", "--repeats", str(repeats)],
                   check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"cpu_ms_per_image": (seconds(6) - seconds(1)) / 5 / 8 * 1e3}))
END
done
"$PYTHON" - "$WORK" <<'END'
import json, sys
load = lambda name: [json.loads(line) for line in open(f"{sys.argv[1]}/{name}")]
for what in ("forward", "gradient"):
    ours, torch = min(r["ms_per_image"] for r in load(f"ours.{what}")), load(f"torch.{what}")
    best = min(torch, key=lambda r: r["ms_per_image"])
    plain = min(r["ms_per_image"] for r in torch if r["net"] == "eager" and r["memory_format"] == "contiguous")
    print(json.dumps({"what": what, "dyweight_ms": round(ours, 1), "torch_ms": plain, "ratio": round(plain / ours, 2),
                      "torch_best_ms": best["ms_per_image"], "torch_best": f"{best['net']} {best['memory_format']} batch {best['batch']}",
                      "ratio_best": round(best["ms_per_image"] / ours, 2)}))
ours = min(r["cpu_ms_per_image"] for r in load("ours.cpu"))
for layout in ("contiguous", "channels-last"):
    torch = min(r["cpu_ms_per_image"] for r in load("torch.cpu") if r["memory_format"] == layout)
    print(json.dumps({"what": "processor time, forward, 1 thread", "dyweight_ms": round(ours, 1), "torch_ms": round(torch, 1),
                      "torch": layout, "ratio": round(torch / ours, 2)}))
END
