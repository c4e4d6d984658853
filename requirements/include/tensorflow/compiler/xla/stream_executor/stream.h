// Horovod 0.28.1 declares this function before it includes this header; TensorFlow 2.21 no longer exports it.
#include "xla/stream_executor/stream.h"

#if HAVE_CUDA
namespace stream_executor::gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
}  // namespace stream_executor::gpu
#endif
