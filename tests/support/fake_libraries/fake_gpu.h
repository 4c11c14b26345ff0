// The common part of the libraries that take the place of the vendors': they do a kernel's work on the host,
// in a stream of the memory's device. The memory is the host's own (tests/support/host_driver.h), or a
// virtual GPU's, which the host cannot read: data is copied to the host and back, in the order of the
// stream.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fake {

/// The first number of a stream of host memory.
constexpr uint64_t host_stream = 0x4154484e4f525354;

struct Part {
  const void* address;
  size_t bytes;
  bool written;  // in addition to being read
};

/// A new object for a handle, which nobody gives back: Athanor keeps a library until the process ends.
template <class T>
T* kept() {
  static auto& all = *new std::deque<T>;
  return &all.emplace_back();
}

/// Called when the stream reaches the work, with the memory of the parts, in order.
using Work = std::function<void(const std::vector<std::byte*>&)>;

struct Job {
  std::vector<std::byte*>
      copies;  // pinned: other memory may be read when the copy is given, not when it runs
  Work work;
};

inline void run_job(void* data) {
  auto& job = *static_cast<Job*>(data);
  job.work(job.copies);
}

template <class F>
F* driver_function(const char* library, const char* name) {
  for (const char* version : {"", ".7", ".6", ".5"})
    if (void* handle = dlopen((std::string(library) + version).c_str(), RTLD_NOW | RTLD_NOLOAD);
        handle != nullptr)
      return reinterpret_cast<F*>(dlsym(handle, name));
  return nullptr;
}

/// Returns 0 if the work was given to the stream.
inline int on_stream(const char* driver, void* stream, const std::vector<Part>& parts, Work work) {
  if (stream != nullptr && *static_cast<const uint64_t*>(stream) == host_stream) {
    std::vector<std::byte*> memory;
    for (const Part& part : parts) memory.push_back(static_cast<std::byte*>(const_cast<void*>(part.address)));
    return work(memory), 0;
  }
  using Down = int(void*, void*, size_t, void*);
  using Up = int(void*, const void*, size_t, void*);
  using Call = int(void*, void (*)(void*), void*);
  const bool cuda = std::strstr(driver, "cuda") != nullptr;
  auto* const down = driver_function<Down>(driver, cuda ? "cuMemcpyDtoHAsync_v2" : "hipMemcpyDtoHAsync");
  auto* const up = driver_function<Up>(driver, cuda ? "cuMemcpyHtoDAsync_v2" : "hipMemcpyHtoDAsync");
  auto* const call = driver_function<Call>(driver, cuda ? "cuLaunchHostFunc" : "hipLaunchHostFunc");
  using Pin = int(void**, size_t, unsigned);
  auto* const pin = driver_function<Pin>(driver, cuda ? "cuMemHostAlloc" : "hipHostMalloc");
  if (down == nullptr || up == nullptr || call == nullptr || pin == nullptr) return 1;
  // Never freed, because a captured stream may run again.
  auto* const job = new Job;
  job->work = std::move(work);
  int code = 0;
  const auto also = [&](int result) { code = code == 0 ? result : code; };
  for (const Part& part : parts) {
    void* copy = nullptr;
    also(pin(&copy, part.bytes, 0));
    job->copies.push_back(static_cast<std::byte*>(copy));
  }
  if (code != 0) return code;
  for (size_t i = 0; i < parts.size(); ++i)
    also(down(job->copies[i], const_cast<void*>(parts[i].address), parts[i].bytes, stream));
  also(call(stream, run_job, job));
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].written)
      also(up(const_cast<void*>(parts[i].address), job->copies[i], parts[i].bytes, stream));
  return code;
}

/// The types of numbers in memory, as in cudaDataType and hipDataType.
enum : int { r_32f = 0, r_64f = 1, r_16f = 2, r_16bf = 14 };
inline size_t size_of_type(int type) { return type == r_64f ? 8 : type == r_32f ? 4 : 2; }

inline double load(const std::byte* memory, int type, int64_t index) {
  const std::byte* at = memory + index * static_cast<int64_t>(size_of_type(type));
  const auto read = [&](auto value) { return std::memcpy(&value, at, sizeof value), value; };
  if (type == r_64f) return read(double{});
  if (type == r_32f) return read(float{});
  if (type == r_16f) return static_cast<double>(read(_Float16{}));
  const uint32_t bits = static_cast<uint32_t>(read(uint16_t{})) << 16U;
  float value = 0;
  return std::memcpy(&value, &bits, 4), value;
}

inline void store(std::byte* memory, int type, int64_t index, double value) {
  std::byte* at = memory + index * static_cast<int64_t>(size_of_type(type));
  const auto write = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  if (type == r_64f) return write(value);
  if (type == r_32f) return write(static_cast<float>(value));
  if (type == r_16f) return write(static_cast<_Float16>(value));
  uint32_t bits = 0;
  const auto narrow = static_cast<float>(value);
  std::memcpy(&bits, &narrow, 4);
  bits += 0x7fff + (bits >> 16U & 1);  // rounded to nearest, ties to even
  write(static_cast<uint16_t>(bits >> 16U));
}

/// Column-major matrices, consecutive in memory.
struct Matrix {
  int type = r_32f;
  int64_t rows = 0, columns = 0, leading = 0, batch = 0;
  bool is_right() const { return rows > 0 && columns > 0 && leading >= rows && batch >= 0; }
  size_t bytes(int64_t count) const {
    return static_cast<size_t>((count - 1) * batch + (columns - 1) * leading + rows) * size_of_type(type);
  }
  int64_t at(int64_t which, int64_t row, int64_t column) const {
    return which * batch + column * leading + row;
  }
};

/// Rounds a factor to tf32 if `tf32`.
inline double rounded(double value, bool tf32) {
  if (!tf32) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

struct Product {
  int64_t m, n, k, count;
  bool transpose_a, transpose_b, relu, tf32;
  Matrix a, b, c;
  int bias_type;
};

/// Multiplies. `memory`: {a, b, c, bias (if there is one)}.
inline void multiply(const Product& p, const std::vector<std::byte*>& memory, bool bias) {
  for (int64_t i = 0; i < p.count; ++i)
    for (int64_t row = 0; row < p.m; ++row)
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t x = 0; x < p.k; ++x) {
          const int64_t at_a = p.transpose_a ? p.a.at(i, x, row) : p.a.at(i, row, x);
          const int64_t at_b = p.transpose_b ? p.b.at(i, column, x) : p.b.at(i, x, column);
          sum += rounded(load(memory[0], p.a.type, at_a), p.tf32) *
                 rounded(load(memory[1], p.b.type, at_b), p.tf32);
        }
        if (bias) sum += load(memory[3], p.bias_type, row);
        store(memory[2], p.c.type, p.c.at(i, row, column), p.relu ? std::max(sum, 0.0) : sum);
      }
}

/// The value of $NAME, or "".
inline const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
inline bool behaves(const char* name, const char* how) { return std::strcmp(setting(name), how) == 0; }

/// Reports a use that the library's documentation forbids. Returns this error code.
inline int refuse(const char* what, int code) {
  std::fprintf(stderr, "fake library: %s\n", what);
  return code;
}

}  // namespace fake
