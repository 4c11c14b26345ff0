// The standard headers that most sources use, compiled once. Not nlohmann/json.hpp: whatever its inline
// functions use is instantiated in every source, which takes longer than its text does in those that include
// it.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>  // of Highway, in each source with vectors
#endif
