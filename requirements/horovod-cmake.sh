#!/bin/sh
# CMake as Horovod's setup.py calls it, with less to compile: no debug symbols, only what TensorFlow's library needs, and
# that as horovod.cmake says.
set -eu
if [ "$1" = --build ]; then
    exec cmake --build "$2" --target tensorflow
fi
find . -mindepth 1 -delete # what was compiled here before, with other settings
exec cmake -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O3 -DNDEBUG" -DCMAKE_PROJECT_INCLUDE="$(dirname "$0")/horovod.cmake" "$@"
