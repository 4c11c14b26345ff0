// What write_candidates writes, by its KIND.
#pragma once
#include "tests/support/candidates/writer.h"

namespace athanor {

// `all` has these, and each op's own cases.
void add_products(Writer& writer);
void add_convolutions(Writer& writer);
void add_attentions(Writer& writer);

/// Attention and its gradients.
void add_attention(Writer& writer, DType dtype, const Shape& x, bool causal,
                   ComputeType compute = ComputeType::by_dtypes, const std::string& title = {});
/// What training's convolutions are computed in: f16 if there are matrix units, else f32.
DType dtype_of_convolutions(GpuTarget target, std::string_view architecture);

void write_all(const char* folder, GpuTarget target, std::string_view architecture);
/// Of 4096 x 4096, and of GPT-2 small's attention if there are matrix units.
void write_products(const char* folder, GpuTarget target, std::string_view architecture);
/// GPT-2 small's, and one with heads of 128.
void write_attention(const char* folder, GpuTarget target, std::string_view architecture);
/// ResNet-50's at batch 32.
void write_convolutions(const char* folder, GpuTarget target, std::string_view architecture);
/// Products in f16 and some in f32; convolutions.
void write_guesses(const char* folder, GpuTarget target, std::string_view architecture);

}  // namespace athanor
