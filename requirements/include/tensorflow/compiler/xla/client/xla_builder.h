// Horovod 0.28.1 includes this header; since TensorFlow 2.19 it lies elsewhere.
#include "xla/hlo/builder/xla_builder.h"
