// The decoders behind image.h. Each follows the contract of read_image() for its format.
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
