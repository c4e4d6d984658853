#!/bin/sh
# CMake as Horovod's setup.py calls it, with less to compile: no debug symbols, and only what TensorFlow's library needs.
set -eu
if [ "$1" = --build ]; then
    exec cmake --build "$2" --target tensorflow
fi
find . -mindepth 1 -delete # what was compiled here before, with other settings
exec cmake -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG" "$@"
