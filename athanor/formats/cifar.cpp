#include "athanor/formats/cifar.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/formats/bytes.h"

namespace athanor {

CifarBatch parse_cifar(Bytes data, Cifar kind, const std::string& name) {
  constexpr size_t picture = size_t{3} * 32 * 32;
  const size_t label_bytes = kind == Cifar::ten ? 1 : 2;
  const int classes = kind == Cifar::ten ? 10 : 100;
  const size_t record = label_bytes + picture;
  if (data.empty() || data.size() % record != 0)
    throw format_error(fmt::format("{} bytes are not a whole number of records of {}", data.size(), record),
                       name, byte_place(data.size() / record * record));
  const size_t count = data.size() / record;
  CifarBatch batch{HostArray(DType::u8, {static_cast<int64_t>(count), 3, 32, 32}),
                   HostArray(DType::u8, {static_cast<int64_t>(count)})};
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * record + label_bytes - 1;
    if (static_cast<int>(data[at]) >= classes)
      throw format_error(fmt::format("the label of record {} is {}: there are {} classes", i,
                                     static_cast<int>(data[at]), classes),
                         name, byte_place(at));
    batch.labels.bytes[i] = data[at];
    std::ranges::copy(data.subspan(at + 1, picture),
                      batch.images.bytes.begin() + static_cast<ptrdiff_t>(i * picture));
  }
  return batch;
}

}  // namespace athanor
