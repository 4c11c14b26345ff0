// The epilogue of a contraction (KernelRequest::epilogue) as a function in source, which kernels call for
// each element before they store it.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

/// An axis of a result, by the coordinates that kernels have: its index is the sum of those, times these
/// factors. `stride`: in elements, of the result's memory.
struct ResultAxis {
  int64_t batch = 0, row = 0, column = 0;
  int64_t stride = 1, extent = 1;
};

class ResultEpilogue {
 public:
  ResultEpilogue() = default;
  explicit ResultEpilogue(const KernelRequest& request);

  bool empty() const { return program_.body.empty(); }
  /// What kernels know beside an element's place; indices of other axes are computed from the place.
  std::vector<ResultAxis> axes;
  /// Of the transposed result: rows are its columns.
  ResultEpilogue transposed() const;

  /// The buffers that it reads: extra1, extra2, ...
  std::vector<Parameter> parameters() const;
  /// "finished": from a computed element to what is stored. "" if it is empty.
  std::string function() const;
  /// A call of it; `x` itself if it is empty. `at`: the element's place in the result's memory, from its
  /// start. A variable `batch` has to be there.
  std::string call(const std::string& x, const std::string& at, const std::string& row,
                   const std::string& column) const;

 private:
  std::string_view index_type() const;
  std::string index_of(int64_t stride, int64_t extent) const;

  LoopProgram program_;  // simplified; buffer 0 is the element
  int first_input_ = 0;  // the request's buffer that is the program's buffer 1
};

}  // namespace athanor::gpu
