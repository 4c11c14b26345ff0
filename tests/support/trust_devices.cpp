// Tests check results themselves, each with its own cache, so they do not wait for an examination of the
// device, except those that ask for it.
#include <cstdlib>

namespace {

[[maybe_unused]] const int trusted = setenv("ATHANOR_TRUST", "1", 0);

}  // namespace
