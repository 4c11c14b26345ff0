#include "athanor/base/embedded.h"

#include "athanor/base/error.h"

namespace athanor {

std::string_view embedded_file(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.content;
  throw Error(ErrorCode::internal, "no file '" + std::string(path) + "' was built in");
}

}  // namespace athanor
