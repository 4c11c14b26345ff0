// The ops of primitives, for passes that make nodes.
#pragma once
#include "athanor/graph/op.h"

namespace athanor {

/// The op of a primitive. `prim` must not be Prim::none.
const Op& find_primitive(Prim prim);

}  // namespace athanor
