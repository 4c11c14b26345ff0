// The chart of a step's memory.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace athanor {

/// Draws a plan's arena (plan.json) from the first kernel to the last: each value is a rectangle at its
/// address, as wide as its lifetime and as high as its size. Returns a self-contained SVG document, for light
/// and dark pages. Throws nlohmann's exceptions for a document of another form.
std::string draw_memory(const nlohmann::json& plan);

}  // namespace athanor
