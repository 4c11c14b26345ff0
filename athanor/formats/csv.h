// Tables in text: comma-separated values (RFC 4180), also with ';' or tabs.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

struct CsvTable {
  std::vector<std::string> columns;            // the first line
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
};

/// The table in a file, at most 1 GiB. The separator is the most frequent of ',', ';' and tab in the first
/// line. Fields in quotes may hold separators, quotes ("") and line ends. Empty lines are skipped. Throws
/// Error(io), and Error(format) naming the line for a row of another length than the first, a quote that is
/// not closed or is inside a field, a column without a name or with the name of another, a first line of
/// numbers that do not count upwards, and a file without rows.
CsvTable read_csv(const std::filesystem::path& path);
/// The same from memory; `name` is the file's name in errors.
CsvTable parse_csv(std::string_view text, const std::string& name);

}  // namespace athanor
