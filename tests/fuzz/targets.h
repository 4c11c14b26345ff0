// What the fuzzers call, one function a reader; the same is run on the corpus by
// tests/formats/fuzz_replay_test.cpp.
//
// Each takes any bytes and returns: the readers may throw Error(format) and nothing else. Anything that is
// read must hold together.
#pragma once
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/formats/idx.h"
#include "athanor/formats/image.h"
#include "athanor/formats/npy.h"
#include "athanor/formats/safetensors.h"

namespace athanor::fuzz {

/// Ends the program, for the fuzzer to see, unless `ok`.
inline void require(bool ok) {
  if (!ok) std::abort();
}

inline void require_sound(const HostArray& array) {
  require(array.bytes.size() == static_cast<size_t>(array.size()) * size_of(array.dtype));
}

/// Runs `read`, which may throw Error(format) with all its parts.
template <class Read>
void only_format_errors(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format && error.where().starts_with("input") && !error.hint().empty());
  }
}

inline void idx(Bytes data) {
  only_format_errors([&] { require_sound(parse_idx(data, "input")); });
}

inline void npy(Bytes data) {
  only_format_errors([&] { require_sound(parse_npy(data, "input")); });
}

/// What was read is written and read again to the same.
inline void safetensors(Bytes data) {
  only_format_errors([&] {
    const SafeTensors content = parse_safetensors(data, "input");
    for (const auto& [name, array] : content.tensors) require_sound(array);
    const SafeTensors again = parse_safetensors(format_safetensors(content), "again");
    require(again.metadata == content.metadata && again.tensors.size() == content.tensors.size());
    for (const auto& [name, array] : content.tensors) {
      const HostArray& other = again.tensors.at(name);
      require(other.dtype == array.dtype && other.shape == array.shape && other.bytes == array.bytes);
    }
  });
}

inline void image(Bytes data) {
  only_format_errors([&] {
    const HostArray picture = parse_image(data, "input");
    require_sound(picture);
    require(picture.dtype == DType::u8 && picture.shape.rank() == 3 && picture.size() > 0 &&
            (picture.shape[2] == 1 || picture.shape[2] == 3));
  });
}

}  // namespace athanor::fuzz
