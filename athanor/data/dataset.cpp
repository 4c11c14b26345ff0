#include "athanor/data/dataset.h"

#include "athanor/base/error.h"

namespace athanor {

HostArray Dataset::picture(int64_t /*index*/, int64_t& /*label_out*/) const {
  throw Error(ErrorCode::usage, "these examples are no pictures: they cannot be augmented or shown");
}

}  // namespace athanor
