// The binary version of CIFAR-10 and CIFAR-100: records of one or two label bytes and an image of 32 x 32
// pixels, plane by plane. A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images (2009);
// https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

enum class Cifar { ten, hundred };

struct CifarBatch {
  HostArray images;  // u8 [N, 3, 32, 32]
  HostArray labels;  // u8 [N]; for CIFAR-100 the fine labels
};

/// The records of one file. Throws Error(format) for a size that is not a whole number of records, and for a
/// label that the dataset does not have. `name` is the file's name in errors.
CifarBatch parse_cifar(Bytes data, Cifar kind, const std::string& name);

}  // namespace athanor
