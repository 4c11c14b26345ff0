#include "athanor/graph/find_primitive.h"

#include <algorithm>
#include <map>

#include "athanor/base/error.h"

namespace athanor {

const Op& find_primitive(Prim prim) {
  static const std::map<Prim, const Op*> all = [] {  // no primitive is added later
    std::map<Prim, const Op*> found;
    for (const Op* op : all_ops())
      if (op->prim != Prim::none) found[op->prim] = op;
    return found;
  }();
  const auto found = all.find(prim);
  if (found == all.end()) throw Error(ErrorCode::internal, "no op is registered for this primitive");
  return *found->second;
}

}  // namespace athanor
