// Kernels made of oneDNN primitives.
#pragma once
#include <vector>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/onednn/onednn.h"

namespace athanor::cpu {

/// The place of a primitive's argument: an offset in bytes into one of the kernel's buffers.
struct Slot {
  size_t buffer = 0, offset = 0;
};

/// Builds a kernel that runs primitives one after another: reorders of its inputs, the operation, the reorder
/// of its result. All memory objects are made here; launching only sets their addresses.
class Sequence {
 public:
  explicit Sequence(const KernelRequest& request);

  struct Argument {
    int name;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc format;
    Slot place;
  };

  /// Copies an input of the request to scratch memory first, unless it is dense. Returns its new description.
  OperandDesc make_dense(size_t index);

  /// An input of the request in the format that a primitive needs: in place, or reordered into scratch
  /// memory.
  Slot input(size_t index, const dnnl::memory::desc& format, const dnnl::memory::desc& wanted);
  /// The place where a primitive writes `written`: the output, or scratch memory, which store_output() then
  /// reads.
  Slot output(const dnnl::memory::desc& format, const dnnl::memory::desc& written);
  void store_output(const dnnl::memory::desc& format, const dnnl::memory::desc& written, Slot place);
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           std::vector<Argument> arguments);

  Candidate finish(const std::string& name) &&;

 private:
  Slot scratch(size_t bytes);
  void reorder(const dnnl::memory::desc& from, Slot source, const dnnl::memory::desc& to, Slot destination);

  struct Step;
  class SequenceKernel;
  const KernelRequest& request_;
  std::vector<Slot> sources_;  // of the inputs
  size_t output_buffer_, scratch_bytes_ = 0;
  std::shared_ptr<SequenceKernel> kernel_;
};

}  // namespace athanor::cpu
