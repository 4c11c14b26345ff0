// `athanor cache import`.
#pragma once
#include <string>

namespace athanor::cli {

/// Adds a file to the cache, and prints what was in it and what became of it. Returns the exit code. Throws
/// what KernelCache::import_from() throws; then nothing was added.
int import_cache(const std::string& file, bool json);

}  // namespace athanor::cli
