// Memory as the operating system manages it.
#pragma once
#include <cstddef>

namespace athanor::os {

/// Bytes of a huge page, where the system has them.
constexpr size_t huge_page = size_t{2} << 20;

/// Wishes that a block lies on huge pages: fewer page faults when it is first touched and fewer TLB misses
/// later. A hint: where the system cannot, nothing happens.
void prefer_huge_pages(void* address, size_t bytes);

}  // namespace athanor::os
