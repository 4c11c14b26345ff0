// Tiles that are filled by copies of boxes: one item orders the copy of a whole tile, and no item computes
// addresses.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

bool TileOperand::has_boxes() const {
  if (!unit_.reads_local() || turned() || widens() || source_.border) return false;
  if (!source_.outer.even() || !source_.k.even() || along().stride() != 1) return false;
  constexpr int64_t unit_of_strides = 16, most_of_box = 256;
  const int64_t stride = (from_along_k_ ? source_.outer : source_.k).stride() * size_;
  return stride > 0 && stride % unit_of_strides == 0 && source_.batch >= 0 &&
         source_.batch * size_ % unit_of_strides == 0 && source_.alignment % unit_of_strides == 0 &&
         rows() <= most_of_box;
}

// Dimensions: a row of a panel, rows, panels, and matrices.
BoxedTensor TileOperand::tensor(size_t argument, int64_t batches) const {
  const TileAxis& across = from_along_k_ ? source_.outer : source_.k;
  // All products may share a matrix; a distance of 0 would be refused.
  const bool several = source_.batch > 0, together = panels_together();
  const int64_t row = across.stride() * size_;
  return {.argument = argument,
          .element_bytes = size_,
          .extents = {together ? panel() : along().extent(), across.extent(),
                      together ? along().extent() / panel() : 1, several ? batches : 1},
          .strides = {row, together ? panel() * size_ : row, several ? source_.batch * size_ : row},
          .box = {panel(), rows(), together ? tile_.outer / panel() : 1}};
}

void TileOperand::copy_boxes(Code& code, const std::string& at, const std::string& first,
                             const std::string& arrival) const {
  const auto copy = [&](int64_t behind, const std::string& places) {
    code.line(fmt::format("COPY_BOX({}_matrices, tiles + {}, {}, {}, {});", source_.name, plus(at, behind),
                          places, source_.batch > 0 ? "batch" : "0", arrival));
  };
  if (along_k_) return copy(0, fmt::format("k_next, {}, 0", first));
  if (panels_together()) return copy(0, fmt::format("0, k_next, {} / {}", first, panel()));
  for (int64_t column = 0; column < tile_.outer; column += panel())
    copy(column * rows(), fmt::format("{}, k_next, 0", plus(first, column)));
}

// One stage is being multiplied, and others are being filled, as in loop_of_local_matrices().
void TileKernel::loop_of_boxes() {
  const int64_t stage = a_.elements() + b_.elements(), on_the_way = stages_on_the_way();
  code_.line(fmt::format("u64 *const arrivals = (u64 *)(tiles + {});", stage * point_.stages));
  code_.line(fmt::format("if (item == 0) ARRIVALS_BEGIN(arrivals, {});", point_.stages));
  code_.line("LOCAL_BARRIER();");
  code_.line("int k_next = k_begin;");
  const auto fetch_next = [&](const std::string& number) {
    code_.open("if (item == 0 && k_next < k_end)");
    const std::string arrival = "arrivals + " + number, at = times(number, stage);
    code_.line(
        fmt::format("ARRIVAL_EXPECT({}, {});", arrival, stage * static_cast<int64_t>(size_of(unit_.input))));
    a_.copy_boxes(code_, at, "m0", arrival);
    b_.copy_boxes(code_, plus(at, a_.elements()), "n0", arrival);
    code_.close();
    code_.line(fmt::format("k_next += {};", point_.k));
  };
  for (int64_t s = 0; s < on_the_way; ++s) fetch_next(std::to_string(s));
  code_.line(fmt::format("int read = 0, write = {}, phase = 0;", on_the_way));
  code_.open(fmt::format("for (int k = k_begin; k < k_end; k += {})", point_.k));
  code_.line("ARRIVAL_WAIT(arrivals + read, phase);");
  code_.line("LOCAL_BARRIER();");
  multiply_local_matrices(times("read", stage), [&] { fetch_next("write"); });
  code_.line(fmt::format("if (++read == {}) read = 0, phase ^= 1;", point_.stages));
  code_.line(fmt::format("if (++write == {}) write = 0;", point_.stages));
  code_.close();
  await_local_matrices();
}

}  // namespace athanor::gpu
