// The ops of primitives, for passes that make nodes.
#pragma once
#include "athanor/graph/op.h"

namespace athanor {

/// The op that is a primitive; not of Prim::none.
const Op& find_primitive(Prim prim);

}  // namespace athanor
