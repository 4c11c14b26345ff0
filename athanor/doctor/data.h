// Doctor's facts that are not of this machine: files of data/, which the library brings with it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor::doctor {

/// Files under a folder of data/ ("checks/"), by name, with their text; sorted.
std::vector<std::pair<std::string, std::string>> data_files(std::string_view folder);

/// The text of one file ("compatibility.toml"). Throws Error(internal) for an unknown one.
std::string data_file(std::string_view name);

}  // namespace athanor::doctor
