// Memory of one call that is kept for the next one.
#pragma once
#include <stdlib.h>

#include <cstddef>

namespace wina {

// Bytes at a multiple of 64, which grow and are never shrunk.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { free(memory_); }

  // Return at least `bytes`, with anything in them; null without memory.
  void* at_least(size_t bytes) {
    if (bytes > size_) {
      free(memory_);
      size_ = 0;
#ifdef _WIN32
      memory_ = nullptr;
#else
      if (posix_memalign(&memory_, 64, bytes)) memory_ = nullptr;
#endif
      if (memory_) size_ = bytes;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace wina
