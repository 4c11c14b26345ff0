// Doctor's facts that do not depend on the machine: files of data/, which are built into the library.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor::doctor {

/// The files in a folder of data/ ("checks/"): names and texts, sorted.
std::vector<std::pair<std::string, std::string>> data_files(std::string_view folder);

/// The text of one file ("compatibility.toml"). Throws Error(internal) for an unknown one.
std::string data_file(std::string_view name);

}  // namespace athanor::doctor
