// Horovod 0.28.1 includes this header; since TensorFlow 2.19 it lies elsewhere, and xla::StatusOr is absl's.
#include "absl/status/statusor.h"
#include "xla/hlo/builder/xla_builder.h"

namespace xla {
using absl::StatusOr;
}  // namespace xla
