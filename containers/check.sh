#!/bin/sh
# Checks the Horovod of an image, or of the environment on PATH. check.sh VARIANT: Horovod's own check, and an allreduce of two ranks with each controller.
set -eu

kit=$(cd "$(dirname "$0")/.." && pwd)
export PATH=/opt/venv/bin:$PATH PYTHONPATH=$kit PYTHONDONTWRITEBYTECODE=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # only here: a build runs as root

built=$(horovodrun --check-build)
echo "$built"
expected='TensorFlow MPI Gloo'
[ "$1" = cuda ] && expected="$expected NCCL"
for part in $expected; do
    echo "$built" | grep -q "\[X\] $part" || { echo "Horovod was built without $part" >&2; exit 1; }
done

python -m train.launch.start.gloo --ranks 2 --hosts localhost:2 -- python $kit/containers/allreduce.py gloo

oversubscribe=''
[ "$1" = mvapich2 ] || oversubscribe=--oversubscribe
mpirun -np 2 $oversubscribe python $kit/containers/allreduce.py mpi
