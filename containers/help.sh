#!/bin/sh
# Printed by `docker run IMAGE` and `singularity run IMAGE`; a command after the image's name is run instead.
[ $# = 0 ] || exec "$@"
cat /opt/kit/containers/built
cat <<'END'

This image contains TensorFlow, Horovod, MPI and the kit. Ranks run in it.

To run an experiment from a checkout of the kit, which keeps the records:
  make weak-scaling NODES=2 CONTAINER=docker|podman|singularity [IMAGE=this image]

To start a run by hand (Horovod's launchers are in the image, results are written to ./results):
  docker run --rm --user $(id -u):$(id -g) -v $PWD:/work \
      -e KIT_IMAGE=IMAGE -e KIT_IMAGE_DIGEST=$(docker image inspect -f '{{.Id}}' IMAGE) IMAGE \
      horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
  export KIT_IMAGE_DIGEST=$(sha256sum kit.sif | cut -d' ' -f1)
  singularity exec kit.sif horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
  srun --mpi=pmix -K1 -N 2 singularity exec kit.sif python -m train experiment=weak_scaling model=resnet50 nodes=2
Records name the image by these variables.

All settings: python -m train --help, and conf/ of the kit (in this image /opt/kit/conf).
END
