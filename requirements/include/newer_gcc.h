// Included before anything else, for what Horovod 0.28.1 takes from the headers of older GCCs.
#pragma once

// horovod/common/common.h throws std::logic_error; the headers it includes brought it along up to GCC 12.
#include <stdexcept>

// Its Gloo's types.h needs uint8_t, which came with other headers up to GCC 14.
#include <cstdint>

// The span of its Flatbuffers assigns to a const member, an error since GCC 14. It takes C++20's with this macro, of
// which this is as much as Flatbuffers needs in C++17.
#define FLATBUFFERS_USE_STD_SPAN
#if __cplusplus < 202002L
#include <cstddef>
namespace std {
inline constexpr size_t dynamic_extent = static_cast<size_t>(-1);
template <class T, size_t = dynamic_extent>
class span {
 public:
  span(T* first, size_t count) : first_(first), count_(count) {}
  T* data() const { return first_; }
  size_t size() const { return count_; }

 private:
  T* first_;
  size_t count_;
};
}  // namespace std
#endif
