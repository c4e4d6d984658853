#!/bin/bash
#PBS -N weak_scaling-nodes2
#PBS -l select=2:ncpus=48:mpiprocs=1
#PBS -l place=scatter:excl
#PBS -l walltime=00:50:00
#PBS -r y
#PBS -j oe
#PBS -o /shared/results/weak_scaling/pbs/weak_scaling-nodes2.log
#PBS -q workq

cd /kit || exit
export KIT_IN_ALLOCATION=1
exec /kit/.venv/bin/python -m train.launch experiment=weak_scaling nodes=2 model=resnet50 launcher=pbs results=/shared/results system.cores_per_node=48 system.partition=workq

# The steps that the launcher makes of it:
# /kit/.venv/bin/python -m train.launch.start.gloo --ranks 1 --hosts n1:1 -- /kit/.venv/bin/python -m train --run-dir /shared/results/weak_scaling/resnet50-nodes1/HASH/r0
# /kit/.venv/bin/python -m train.launch.start.gloo --ranks 2 --hosts n1:1,n2:1 -- /kit/.venv/bin/python -m train --run-dir /shared/results/weak_scaling/resnet50-nodes2/HASH/r0
