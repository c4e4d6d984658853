#!/bin/sh
# Resolve the .in files to hash-locked .txt files, for 64-bit Linux. Needs uv.
# For Python 3.11; what needs no TensorFlow also for 3.13, for which the NumPy of TensorFlow 2.18 has no wheel.
set -eu
python=3.11
compile() { uv pip compile --python-version $python --python-platform x86_64-manylinux_2_28 --generate-hashes --no-header --no-annotate --quiet "$@"; }
compile cpu.in --override overrides-cpu.in -o cpu.txt
for set in cuda analysis launch build dev; do compile $set.in -c cpu.txt -o $set.txt; done
for set in horovod mpich; do compile --no-deps $set.in -o $set.txt; done
python=3.13
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
sed -n 's/^\([^ ]*==[^ ]*\).*/\1/p' cpu.txt | grep -v '^numpy==' >"$constraints"
for set in analysis launch; do compile $set.in -c "$constraints" -o $set-py313.txt; done
