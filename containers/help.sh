#!/bin/sh
# What `docker run IMAGE` and `singularity run IMAGE` print; with words behind it, run them instead.
[ $# = 0 ] || exec "$@"
cat /opt/kit/containers/built
cat <<'END'

It holds TensorFlow, Horovod, MPI and the kit: what ranks run in.

From a checkout of the kit, which runs an experiment and keeps its records:
  make weak-scaling NODES=2 CONTAINER=docker|podman|singularity [IMAGE=this image]

By hand; Horovod's launchers are inside, the results go to ./results:
  docker run --rm --user $(id -u):$(id -g) -v $PWD:/work IMAGE \
      horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
  singularity exec kit.sif horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
  srun --mpi=pmix -K1 -N 2 singularity exec kit.sif python -m train experiment=weak_scaling model=resnet50 nodes=2

Everything that can be set: python -m train --help, and conf/ of the kit (here /opt/kit/conf).
END
