// The epilogue of a contraction (KernelRequest::epilogue) as a function in source, which kernels call for
// each element before they store it.
#pragma once
#include <optional>
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

/// "row + batch * 64": an element's index along the axis.
std::string sum_of(const ResultAxis& axis);

class ResultEpilogue {
 public:
  ResultEpilogue() = default;
  explicit ResultEpilogue(const KernelRequest& request);
  /// Any other elements that kernels compute in the same way: `program`'s buffer 0 is the element as it is
  /// read, buffer b > 0 is `arguments[b - 1]`, of which the last is written, and its one store is what the
  /// element becomes. `alignments`: of the others, in bytes. `name` begins the names in sources.
  ResultEpilogue(const LoopProgram& program, std::vector<GpuLaunch::Argument> arguments,
                 std::vector<int64_t> alignments, std::string name);

  bool empty() const { return program_.body.empty(); }
  /// Whether it has further results (has_further_results() in kernels/epilogue.h). Kernels then store
  /// outputs() and make partial sums of reductions(), which a loop behind them finishes.
  bool has_further_results() const { return further_; }
  /// Whether it depends on an element's place in the result's memory, and not only on what axes tell.
  bool reads_place() const;
  /// The place of a launch's first element, for sources: 0 if no place is read, so that launches which differ
  /// only by where they write share one source.
  int64_t first_place(int64_t first) const { return reads_place() ? first : 0; }
  /// Whether kernels can do that: results lie in memory as the op's does, and whole rows or columns are
  /// reduced.
  bool fits() const;
  /// The axes along which kernels know an element's index. Other indices are computed from its place in
  /// memory.
  std::vector<ResultAxis> axes;
  /// The epilogue of the transposed result: rows are its columns.
  ResultEpilogue transposed() const;

  /// The buffers that it reads: extra1, extra2, ...
  std::vector<Parameter> parameters() const;
  /// With further results: the buffers that each element is stored to, in the order of the members of
  /// Finished.
  struct Output {
    std::string name;
    DType type;
    GpuLaunch::Argument argument;
  };
  std::vector<Output> outputs() const;
  int64_t steps() const { return static_cast<int64_t>(program_.body.size()); }  // for each element
  const std::vector<LoopReduction>& reductions() const { return program_.reductions; }
  /// Along which of the kernel's coordinates it reduces; the others are kept.
  struct Reduced {
    bool batch = false, row = false, column = false;
    int64_t results = 1;  // of each reduction
    std::string result;   // the index of an element's result, from the kept ones of batch, row and column
  };
  std::optional<Reduced> reduced() const;
  /// The loop that joins the parts [reduction][result][part] of all reductions, which are its buffer 0, and
  /// the arguments for its other buffers.
  struct Finish {
    LoopProgram program;
    std::vector<GpuLaunch::Argument> arguments;  // of buffers 1, 2, ...
  };
  Finish finish(int64_t parts) const;

  /// A digit of an element's place: its elements are `stride` apart in the result, and `in_part` in a part.
  struct Digit {
    int64_t stride, extent, in_part;
  };
  /// The whole epilogue as a loop over a result that lies in memory in parts. The loop adds the parts, which
  /// are its buffer 0. Part s begins s * distance elements behind the first. None if the digits do not divide
  /// the program's dimensions.
  std::optional<Finish> over_parts(int64_t parts, int64_t distance, const std::vector<Digit>& digits) const;

  /// An operand that is read by vectors: `width` neighbouring elements of a row, which begin at a multiple of
  /// `width`, by one or two reads of up to 16 bytes.
  struct Vector {
    int operand;         // of the program
    std::string buffer;  // extra1
    DType type;
    int64_t registers;  // of 32 bits
  };
  std::vector<Vector> vectors(int64_t width) const;
  /// Where a vector begins: a call of the function that function() writes for it.
  std::string place(const Vector& vector, const std::string& at, const std::string& row,
                    const std::string& column) const;

  /// The source of "finished", a function from a computed element to what is stored. "" if the epilogue is
  /// empty. With further results it returns a Finished, with members result0, result1, ..., and term0, ...
  /// for what is reduced. The elements of `vectors` are arguments of a call; a function "place2" returns
  /// where the vector of operand 2 begins.
  std::string function(const std::vector<Vector>& vectors = {}) const;
  /// A call of it; `x` itself if it is empty. `at`: the element's place in the result's memory, from its
  /// start. A variable `batch` must exist.
  std::string call(const std::string& x, const std::string& at, const std::string& row,
                   const std::string& column, const std::vector<std::string>& of_vectors = {}) const;

 private:
  std::string_view index_type() const;
  const ResultAxis* axis_of(int64_t stride, int64_t extent) const;
  std::string index_of(int64_t stride, int64_t extent) const;

  Ints places() const;  // the strides of the result, by the program's dimensions
  GpuLaunch::Argument argument(int buffer) const { return arguments_[static_cast<size_t>(buffer) - 1]; }
  std::string extra(int buffer) const;

  LoopProgram program_;  // simplified; buffer 0 is the element
  bool further_ = false;
  std::vector<GpuLaunch::Argument> arguments_;  // of the program's buffers from 1 on
  std::vector<int64_t> alignments_;             // of those that are inputs, in bytes
  std::string name_;                            // before the names in sources
};

}  // namespace athanor::gpu
