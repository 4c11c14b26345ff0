#include "athanor/backends/cpu/onednn/sequence.h"

#include <mutex>

#include "athanor/backends/cpu/openmp.h"
#include "athanor/base/error.h"
#include "athanor/base/threads.h"

namespace athanor::cpu {

struct Sequence::Step {
  dnnl::primitive primitive;
  std::vector<dnnl::memory> memories;
  std::vector<Slot> places;
  std::vector<dnnl_exec_arg_t> arguments;
};

class Sequence::SequenceKernel final : public CpuKernel {
 public:
  void run(Buffers buffers) const override {
    const std::lock_guard lock(mutex_);  // the memory objects have the addresses of one launch at a time
    use_openmp_threads(threads_);
    for (const MergedInput& copy : copies) copy.resolve(buffers);
    for (const Step& step : steps) {
      for (size_t i = 0; i < step.memories.size(); ++i)
        step.memories[i].set_data_handle(static_cast<std::byte*>(buffers[step.places[i].buffer]) +
                                         step.places[i].offset);
      // Not primitive::execute(): it builds this list of arguments again each time.
      const dnnl_status_t status =
          dnnl_primitive_execute(step.primitive.get(), onednn_stream().get(),
                                 static_cast<int>(step.arguments.size()), step.arguments.data());
      if (status != dnnl_success)
        throw Error(ErrorCode::internal,
                    "oneDNN failed with status " + std::to_string(static_cast<int>(status)));
    }
  }

  std::vector<MergedInput> copies;
  std::vector<Step> steps;

 private:
  mutable std::mutex mutex_;
  int threads_ = cpu_threads();  // primitives and their scratchpads are made for this number
};

Sequence::Sequence(const KernelRequest& request)
    : request_(request), output_buffer_(request.inputs.size()), kernel_(std::make_shared<SequenceKernel>()) {
  for (size_t i = 0; i < request.inputs.size(); ++i) sources_.push_back({i, 0});
}

OperandDesc Sequence::make_dense(size_t index) {
  OperandDesc operand = request_.inputs[index];
  const MergedInput input(request_, static_cast<int>(index), {}, scratch_bytes_);
  operand.strides = contiguous_strides(operand.shape);
  if (input.copy_offset()) {
    sources_[index] = {output_buffer_ + 1, *input.copy_offset()};
    kernel_->copies.push_back(input);
  }
  return operand;
}

Slot Sequence::scratch(size_t bytes) {
  const size_t offset = aligned(scratch_bytes_);
  scratch_bytes_ = offset + bytes;
  return {output_buffer_ + 1, offset};
}

Slot Sequence::input(size_t index, const dnnl::memory::desc& format, const dnnl::memory::desc& wanted) {
  const Slot place = sources_[index];
  if (format == wanted) return place;
  const Slot reordered = scratch(wanted.get_size());
  reorder(format, place, wanted, reordered);
  return reordered;
}

Slot Sequence::output(const dnnl::memory::desc& format, const dnnl::memory::desc& written) {
  return format == written ? Slot{output_buffer_, 0} : scratch(written.get_size());
}

void Sequence::store_output(const dnnl::memory::desc& format, const dnnl::memory::desc& written, Slot place) {
  if (format != written) reorder(written, place, format, {output_buffer_, 0});
}

void Sequence::reorder(const dnnl::memory::desc& from, Slot source, const dnnl::memory::desc& to,
                       Slot destination) {
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  primitive_attributes());
  add(dnnl::reorder(description), description.scratchpad_desc(),
      {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, destination}});
}

void Sequence::add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                   std::vector<Argument> arguments) {
  if (const size_t bytes = scratchpad.get_size(); bytes > 0)
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, scratch(bytes)});
  Step step{primitive, {}, {}, {}};
  for (const Argument& argument : arguments) {
    step.memories.emplace_back(argument.format, onednn_engine(), nullptr);  // addresses come with each launch
    step.places.push_back(argument.place);
    step.arguments.push_back({argument.name, step.memories.back().get()});
  }
  kernel_->steps.push_back(std::move(step));
}

Candidate Sequence::finish(const std::string& name) && { return {name, scratch_bytes_, std::move(kernel_)}; }

}  // namespace athanor::cpu
