#include "athanor/base/os/memory.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace athanor::os {

void prefer_huge_pages([[maybe_unused]] void* address, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  madvise(address, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace athanor::os
