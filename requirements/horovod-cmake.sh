#!/bin/sh
# CMake as Horovod's setup.py calls it (HOROVOD_CMAKE), for less to compile: without debug symbols, which take a quarter
# of the time and nine tenths of the library, and only what TensorFlow's library needs. Horovod's project would compile
# Gloo twice, for two C++ standards, and TensorFlow uses one of them.
set -eu
if [ "$1" = --build ]; then
    folder=$2
    shift 2
    exec cmake --build "$folder" --target tensorflow "$@"
fi
exec cmake -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG" "$@"
