// Memory on a cache line's boundary, as the vectors want it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace ebo {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) : size_(size) {
    if (size > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = (size * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes ? bytes : 64)));
    if (!data_) throw std::bad_alloc();
  }
  Buffer(size_t size, T value) : Buffer(size) {
    for (size_t i = 0; i < size; ++i) data_.get()[i] = value;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace ebo
