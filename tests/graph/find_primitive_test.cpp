#include "athanor/graph/find_primitive.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"

namespace athanor {
namespace {

TEST(FindPrimitive, IsTheOnlyOpOfThatPrimitive) {
  int count = 0;
  for (const Op* op : all_ops()) {
    if (op->prim == Prim::none) continue;
    EXPECT_EQ(&find_primitive(op->prim), op) << op->name;
    ++count;
  }
  EXPECT_EQ(count, static_cast<int>(Prim::none));
  EXPECT_THROW(find_primitive(Prim::none), Error);
}

}  // namespace
}  // namespace athanor
