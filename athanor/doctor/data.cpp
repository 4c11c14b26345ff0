#include "athanor/doctor/data.h"

#include "athanor/base/embedded.h"

namespace athanor::doctor {

std::vector<std::pair<std::string, std::string>> data_files(std::string_view folder) {
  const std::string start = "data/" + std::string(folder);
  std::vector<std::pair<std::string, std::string>> files;
  for (const EmbeddedFile& file : embedded_files())
    if (file.path.starts_with(start)) files.emplace_back(file.path.substr(5), file.content);
  return files;
}

std::string data_file(std::string_view name) {
  return std::string(embedded_file("data/" + std::string(name)));
}

}  // namespace athanor::doctor
