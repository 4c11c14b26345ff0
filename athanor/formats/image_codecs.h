// The decoders behind image.h. Each follows read_image()'s contract for its own format.
#pragma once
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

bool is_png(Bytes data);
HostArray parse_png(Bytes data, const std::string& name);

bool is_jpeg(Bytes data);
HostArray parse_jpeg(Bytes data, const std::string& name);

}  // namespace athanor
