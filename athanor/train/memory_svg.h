// The chart of a step's memory.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace athanor {

/// A plan's arena (plan.json) from the first kernel to the last: each value is a rectangle as wide as it
/// lives and as high as it is large, at its address. An SVG document that stands by itself, for light and
/// dark pages. Throws nlohmann's exceptions for a document of another form.
std::string draw_memory(const nlohmann::json& plan);

}  // namespace athanor
