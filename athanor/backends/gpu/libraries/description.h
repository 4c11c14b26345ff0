// A library's descriptor (of a matrix, a convolution), for as long as kernels need it.
#pragma once
#include <utility>

namespace athanor::gpu {

class Description {
 public:
  using Forget = int (*)(void*);
  Description(void* handle, Forget forget) : handle_(handle), forget_(forget) {}
  ~Description() {
    if (handle_ != nullptr) forget_(handle_);
  }
  Description(Description&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), forget_(other.forget_) {}
  Description& operator=(Description&&) = delete;
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  void* get() const { return handle_; }

 private:
  void* handle_;
  Forget forget_;
};

}  // namespace athanor::gpu
