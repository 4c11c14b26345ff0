// Writes the launches of kernel candidates, for tools/check-gpu-kernels:
// `write_candidates FOLDER hip|cuda|opencl KIND [ARCHITECTURE]`. KIND is
// `all`: every candidate that the templates offer a GPU for training's products, convolutions and attention,
// and the first of each kind for each op's own cases. It fails if an op with a template computes none of its
// cases.
// `products`: only the first candidate, and the first that copies boxes or not, of products of 4096 x 4096
// and, if there are matrix units, of GPT-2 small's attention; and the first for all of its gradients.
// `convolutions`: of ResNet-50's, in f16 if there are matrix units, else f32.
// `guesses`: every candidate of the problems of training_problems.h, with what its time depends on.
// With an architecture ("gfx1100", "sm_86") there are candidates for its matrix units; `opencl` with 8 or 16
// has those for Intel's units of that many lanes. (A plan for a GPU that does not exist has only the first
// candidate of each op.) launches.json says what each launch needs.
#include <cstdio>
#include <string_view>

#include "athanor/base/error.h"
#include "tests/support/candidates/candidates.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(
        "usage: write_candidates FOLDER [hip|cuda|opencl [all|products|attention|convolutions|guesses "
        "[ARCHITECTURE]]]\n",
        stderr);
    return 2;
  }
  try {
    const std::string_view asked = argc > 2 ? argv[2] : "hip";
    const auto target = asked == "cuda"     ? athanor::GpuTarget::cuda
                        : asked == "opencl" ? athanor::GpuTarget::opencl
                                            : athanor::GpuTarget::hip;
    const std::string_view architecture = argc > 4 ? argv[4] : "";
    const std::string_view kind = argc > 3 ? argv[3] : "all";
    if (kind == "products")
      athanor::write_products(argv[1], target, architecture);
    else if (kind == "attention")
      athanor::write_attention(argv[1], target, architecture);
    else if (kind == "convolutions")
      athanor::write_convolutions(argv[1], target, architecture);
    else if (kind == "guesses")
      athanor::write_guesses(argv[1], target, architecture);
    else
      athanor::write_all(argv[1], target, architecture);
  } catch (const athanor::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
