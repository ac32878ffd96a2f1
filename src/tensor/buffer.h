// Owning memory for weights, activations and the pool.

#ifndef ARIL_TENSOR_BUFFER_H_
#define ARIL_TENSOR_BUFFER_H_

#include <cstddef>

namespace aril {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Zeroed memory, aligned to a page of the operating system; from 2 MiB on aligned to a huge page,
// and huge pages are asked for. Physical memory is taken on first touch. Move-only. Out of address
// space ends the process.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size_bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace aril

#endif  // ARIL_TENSOR_BUFFER_H_
