// Statements of the kernel language for the steps of a loop program.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor::gpu {

/// Lines of source, indented.
class Code {
 public:
  void line(const std::string& text) { text_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& text) { line(text.empty() ? "{" : text + " {"), ++depth_; }
  void close() { --depth_, line("}"); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t depth_ = 0;
};

/// The position of an operand's element at an index: "4 + 12 * dim0 + dim1". `index[d]` is the C expression
/// for dimension d; "" counts as 0.
std::string affine(int64_t offset, const Ints& strides, const std::vector<std::string>& index);

/// Declares registers r<first>, r<first + 1>, ... for the steps at an index. `held`: for each operand, the C
/// expression of its element, if it is not loaded from memory; "" if it is. `keeps_random`: blocks of random
/// numbers are kept for the next element, where declare_random() has declared them.
void write_steps(Code& code, const LoopProgram& program, const std::vector<LoopStep>& steps, int first,
                 const std::vector<std::string>& index, const std::vector<std::string>& held = {},
                 bool keeps_random = false);
void declare_random(Code& code, const std::vector<LoopStep>& steps, int first);
/// Writes registers to memory at an index.
void write_stores(Code& code, const LoopProgram& program, const std::vector<LoopStore>& stores,
                  const std::vector<std::string>& index);

/// The number in the language's syntax, exactly.
std::string literal(double value, DType type);
std::string literal(int64_t value, DType type);

/// The type of every register, by number.
std::vector<DType> register_types(const LoopProgram& program);
/// The dtype in which each buffer is accessed.
std::vector<DType> buffer_types(const LoopProgram& program);

/// The value from which a reduction starts, and "a combined with b" as an expression (not for argmax).
std::string reduction_identity(const LoopReduction& reduction);
std::string combine(const LoopReduction& reduction, const std::string& a, const std::string& b);

}  // namespace athanor::gpu
