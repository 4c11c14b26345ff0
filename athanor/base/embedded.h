// Files that are built into the library (cmake/embed.cmake): data/ and kernel sources.
#pragma once
#include <span>
#include <string_view>

namespace athanor {

struct EmbeddedFile {
  std::string_view path;  // from the project's top: "data/gpus.csv"
  std::string_view content;
};
std::span<const EmbeddedFile> embedded_files();

/// The content of a file. Throws Error(internal) for an unknown path.
std::string_view embedded_file(std::string_view path);

}  // namespace athanor
