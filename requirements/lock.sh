#!/bin/sh
# Resolve the .in files to hash-locked .txt files, for 64-bit Linux and Python 3.11. Needs uv.
set -eu
compile() { uv pip compile --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes --no-header --no-annotate --quiet "$@"; }
compile cpu.in --override overrides-cpu.in -o cpu.txt
for set in cuda analysis launch build dev; do compile $set.in -c cpu.txt -o $set.txt; done
for set in horovod mpich; do compile --no-deps $set.in -o $set.txt; done
