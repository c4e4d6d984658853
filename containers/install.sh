#!/bin/sh
# The steps shared by Dockerfile and singularity.def: install.sh STEP VARIANT, as root, in the image being built.
# Python packages and their versions are in uv.lock, system packages here.
set -eu

kit=/opt/kit       # this repository
venv=/opt/venv     # its environment
toolkit=/toolkit   # the root of an image with the CUDA toolkit: for the step `environment` of cuda

step=$1 variant=$2
case $variant in
cpu) packages=cpu mpi_headers=libopenmpi-dev mpi=openmpi-bin ;;
cuda) packages=cuda mpi_headers=libopenmpi-dev mpi=openmpi-bin ;;
mvapich2) packages=cpu mpi_headers='' mpi='' ;; # MPICH comes with the environment
*) echo "VARIANT=$variant: allowed are cpu, cuda, mvapich2" >&2; exit 2 ;;
esac

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/apt /var/log/*.log
}

case $step in
compilers) # build tools; they stay out of the final image
    # shellcheck disable=SC2086 # the list may be empty
    apt_install g++ make python3-venv $mpi_headers
    ;;

environment) # TensorFlow, Horovod compiled for it, and the other packages, from the lock
    if [ "$variant" = cuda ]; then
        # The newest CUDA 12. NVIDIA's images have links to it, too, as cuda-12, which lead out of the mounted folder.
        cuda=$(ls $toolkit/usr/local/cuda-12.*/bin/nvcc 2>/dev/null | sort -V | tail -n 1)
        cuda=${cuda%/bin/nvcc}
        [ "$cuda" ] || { echo "no cuda-12.*/bin/nvcc in $toolkit/usr/local: set TOOLKIT to an image with CUDA 12" >&2; exit 1; }
        export PATH="$cuda/bin:$PATH" CUDAToolkit_ROOT="$cuda"
    fi
    mpich=''
    [ "$variant" = mvapich2 ] && mpich=mpich
    # shellcheck disable=SC2086
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy $kit/requirements/setup.sh $venv $packages $mpich
    # Remove packages that no rank loads: Clang is for TensorFlow's code generators, Keras 3 is what TensorFlow has
    # without tf_keras, and fontTools is for PDF files. Then remove files that only builds need: headers, tests of
    # packages, build tools, debug symbols.
    $venv/uv/bin/uv pip uninstall --quiet --python $venv libclang cmake wheel keras optree namex fonttools
    cd $venv
    rm -rf install.log requirements.txt uv include share/man lib/python3*/site-packages/tensorflow/include
    # tensorflow/_api/*/test is not a test.
    find lib -depth -type d -name tests -path '*/site-packages/*' -not -path '*/tensorflow/*' -exec rm -rf {} +
    find lib -name 'mpi_lib*.so' -exec strip --strip-unneeded {} +
    ;;

runtime) # what the final image adds to the base
    # shellcheck disable=SC2086
    apt_install python3 tini openssh-client openssh-server $mpi
    rm -f /etc/ssh/ssh_host_*  # keys in an image would be public
    mkdir -p /run/sshd
    # Let the loader find the CUDA libraries that Horovod needs, also in a SIF.
    if [ "$variant" = cuda ]; then
        ls -d $venv/lib/python3*/site-packages/nvidia/nccl/lib $venv/lib/python3*/site-packages/nvidia/cuda_runtime/lib \
            >/etc/ld.so.conf.d/kit.conf
        ldconfig
    fi
    ;;

*) echo "step $step: allowed are compilers, environment, runtime" >&2; exit 2 ;;
esac
