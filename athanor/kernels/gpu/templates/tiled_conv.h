// What convolutions by tiles and their gradients share: their products, and launches that prepare these.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/tile_problem.h"

namespace athanor::gpu {

/// The products of a convolution, and the launches that prepare them. `scratch`: bytes that those fill.
struct TiledConv {
  std::string name;
  std::vector<GpuLaunch> copies;
  std::vector<TileProblem> products;
  size_t scratch = 0;

  /// Takes scratch memory for this many elements.
  GpuLaunch::Argument take(int buffer, int64_t elements, DType type) {
    const GpuLaunch::Argument at{buffer, static_cast<int64_t>(scratch)};
    scratch = (scratch + static_cast<size_t>(elements) * size_of(type) + 255) / 256 * 256;
    return at;
  }
};

/// What computes one of the two operands.
class Computed {
 public:
  explicit Computed(const KernelRequest& request);
  bool any() const { return how_.has_value(); }
  /// nullptr: it is in memory as it is.
  const OperandPrologue* operator[](size_t input) const { return how_ && input == input_ ? &*how_ : nullptr; }
  /// Has a matrix, whose memory begins at the operand's first element, compute its elements.
  void read_into(TileProblem::Matrix& matrix, size_t input) const;

 private:
  size_t input_;
  std::optional<OperandPrologue> how_;
};

/// Whether convolutions of the type have tiles.
bool has_conv_tiles(DType type, const GpuTraits& traits);
/// Whether images with so many channels of a group can be read without a copy: channels are last, and a
/// vector has channels of one pixel.
bool read_in_place(const OperandDesc& images, int64_t channels, const Computed& computed);
/// The types and buffers of a request's product.
TileProblem empty_product(const KernelRequest& request);
/// Adds candidates for the first `most` points of the largest product that suit the others.
void add_candidates(std::vector<GpuCandidate>& result, const TiledConv& conv, const GpuTraits& traits,
                    size_t most);

}  // namespace athanor::gpu
