// Tests look at results themselves, each with a cache of its own: none of them waits for an examination of
// its device, unless it says so.
#include <cstdlib>

namespace {

[[maybe_unused]] const int trusted = setenv("ATHANOR_TRUST", "1", 0);

}  // namespace
