// Kernels made of oneDNN primitives.
#pragma once
#include <vector>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/onednn/onednn.h"

namespace athanor::cpu {

/// Where an argument of a primitive lies: so many bytes into one of the buffers that the kernel is launched
/// with.
struct Place {
  size_t buffer = 0, offset = 0;
};

/// Builds a kernel that runs primitives one after the other: the reorders of its inputs, the operation, the
/// reorder of its result. All memory objects are made here; launching only sets their addresses.
class Sequence {
 public:
  explicit Sequence(const KernelRequest& request);

  struct Argument {
    int name;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc format;
    Place place;
  };

  /// Has an input of the request copied to scratch memory, first of all, unless it is dense; gives what it is
  /// then.
  OperandDesc make_dense(size_t index);

  /// An input of the request in the format that a primitive wants: where it is, or reordered into scratch
  /// memory.
  Place input(size_t index, const dnnl::memory::desc& format, const dnnl::memory::desc& wanted);
  /// The output, when a primitive writes `written`: where it goes, or scratch memory, to be given to
  /// store_output().
  Place output(const dnnl::memory::desc& format, const dnnl::memory::desc& written);
  void store_output(const dnnl::memory::desc& format, const dnnl::memory::desc& written, Place place);
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           std::vector<Argument> arguments);

  Candidate finish(const std::string& name) &&;

 private:
  Place scratch(size_t bytes);
  void reorder(const dnnl::memory::desc& from, Place source, const dnnl::memory::desc& to, Place destination);

  struct Step;
  class SequenceKernel;
  const KernelRequest& request_;
  std::vector<Place> sources_;  // of the inputs
  size_t output_buffer_, scratch_bytes_ = 0;
  std::shared_ptr<SequenceKernel> kernel_;
};

}  // namespace athanor::cpu
