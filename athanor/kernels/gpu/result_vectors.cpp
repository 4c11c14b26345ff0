#include "athanor/kernels/gpu/result_vectors.h"

#include <fmt/format.h>

#include <algorithm>

namespace athanor::gpu {

static std::string name_of(const ResultEpilogue::Vector& v, const std::string& run) {
  return fmt::format("in{}_{}", v.operand, run);
}

void declare_vectors(Code& code, const ResultVectors& vectors, const std::string& run) {
  for (const ResultEpilogue::Vector& v : vectors)
    code.line(v.registers == 1  ? fmt::format("u32 {}[1];", name_of(v, run))
              : v.registers < 8 ? fmt::format("u32x{} {};", v.registers, name_of(v, run))
                                : fmt::format("u32x4 {0}, {0}_more;", name_of(v, run)));
}

void read_vectors(Code& code, const ResultEpilogue& epilogue, const ResultVectors& vectors,
                  const std::string& run, const std::string& at, const std::string& row,
                  const std::string& column) {
  for (const ResultEpilogue::Vector& v : vectors) {
    const std::string from = epilogue.place(v, at, row, column);
    code.line(
        fmt::format("READ_ALIGNED({}, {}, {});", std::min<int64_t>(v.registers, 4), name_of(v, run), from));
    if (v.registers > 4)
      code.line(fmt::format("READ_ALIGNED(4, {}_more, {} + {});", name_of(v, run), from,
                            16 / static_cast<int64_t>(size_of(v.type))));
  }
}

std::vector<std::string> elements_of(const ResultVectors& vectors, const std::string& run, int64_t r) {
  std::vector<std::string> elements;
  for (const ResultEpilogue::Vector& v : vectors) {
    const int64_t in_one = 16 / static_cast<int64_t>(size_of(v.type));
    elements.push_back(fmt::format("ELEMENT({}, {}{}, {})", language_name(v.type), name_of(v, run),
                                   v.registers > 4 && r >= in_one ? "_more" : "",
                                   v.registers > 4 ? r % in_one : r));
  }
  return elements;
}

}  // namespace athanor::gpu
