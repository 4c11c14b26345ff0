#include "athanor/formats/npy.h"

#include <fmt/format.h>

#include <limits>

#include "athanor/formats/bytes.h"
#include "athanor/formats/npy_header.h"

namespace athanor {
namespace {

/// An element type in the file, and the dtype it becomes.
struct NpyElement {
  std::string_view code;  // kind and width, as in "<f4"
  DType dtype;
  size_t width;
};

constexpr NpyElement elements[] = {{"b1", DType::b8, 1},  {"i1", DType::i8, 1},  {"u1", DType::u8, 1},
                                   {"i2", DType::i32, 2}, {"u2", DType::i32, 2}, {"i4", DType::i32, 4},
                                   {"u4", DType::i64, 4}, {"i8", DType::i64, 8}, {"u8", DType::i64, 8},
                                   {"f2", DType::f16, 2}, {"f4", DType::f32, 4}, {"f8", DType::f64, 8}};

const NpyElement& element_of(std::string_view descr, const std::string& name) {
  if (!descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos) {
    for (const NpyElement& element : elements)
      // '|' says that the byte order does not matter, which is true only for single bytes.
      if (element.code == descr.substr(1) && (descr[0] != '|' || element.width == 1)) return element;
  }
  throw format_error(
      fmt::format("element type '{}' is not supported", descr), name, "field 'descr'",
      "Known are bool, int8 to int64, uint8 to uint64, float16, float32 and float64: save array.astype() of "
      "one of them");
}

std::endian order_of(std::string_view descr) {
  if (descr[0] == '<') return std::endian::little;
  if (descr[0] == '>') return std::endian::big;
  return std::endian::native;
}

/// The same elements in row-major order.
std::vector<std::byte> to_row_major(Bytes column_major, const Shape& shape, size_t width) {
  std::vector<std::byte> row_major(column_major.size());
  if (row_major.empty()) return row_major;
  Ints strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = stride, stride *= shape[static_cast<int>(i)];
  Ints index(strides.size());
  int64_t from = 0;
  for (size_t to = 0; to < row_major.size(); to += width) {
    std::copy_n(column_major.data() + static_cast<size_t>(from) * width, width, row_major.data() + to);
    for (size_t axis = index.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < shape[static_cast<int>(axis)]) break;
      from -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return row_major;
}

/// Converts elements of type From to `array`'s wider type To.
template <class From, class To>
void widen(HostArray& array, const std::string& name, size_t data_offset) {
  const size_t count = array.bytes.size() / sizeof(From);
  std::vector<std::byte> wide(count * sizeof(To));
  for (size_t i = 0; i < count; ++i) {
    const From value = load<From>(array.bytes.data() + i * sizeof(From), std::endian::native);
    if constexpr (sizeof(From) == sizeof(To)) {
      if (value > static_cast<From>(std::numeric_limits<To>::max()))
        throw format_error(fmt::format("element {} is {}, above the largest i64", i, value), name,
                           byte_place(data_offset), "Numbers that large need array.astype('float64')");
    }
    const auto converted = static_cast<To>(value);
    std::memcpy(wide.data() + i * sizeof(To), &converted, sizeof(To));
  }
  array.bytes = std::move(wide);
}

std::string_view descr_of(DType dtype) {
  constexpr bool little = std::endian::native == std::endian::little;
  switch (dtype) {
    case DType::f64:
      return little ? "<f8" : ">f8";
    case DType::f16:
      return little ? "<f2" : ">f2";
    case DType::i64:
      return little ? "<i8" : ">i8";
    case DType::i32:
      return little ? "<i4" : ">i4";
    case DType::i8:
      return "|i1";
    case DType::u8:
      return "|u1";
    case DType::b8:
      return "|b1";
    case DType::f32:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      break;
  }
  return little ? "<f4" : ">f4";
}

}  // namespace

HostArray read_npy(const std::filesystem::path& path) { return parse_npy(read_file(path), path.string()); }

HostArray parse_npy(Bytes data, const std::string& name) {
  const NpyHeader header = parse_npy_header(data, name);
  const NpyElement& element = element_of(header.descr, name);
  const Bytes payload = data.subspan(header.data_offset);
  check_payload(header.shape, element.width, payload.size(), name, byte_place(header.data_offset));
  HostArray array;
  array.dtype = element.dtype;
  array.shape = header.shape;
  array.bytes = header.fortran_order ? to_row_major(payload, header.shape, element.width)
                                     : std::vector<std::byte>(payload.begin(), payload.end());
  to_native(array.bytes, element.width, order_of(header.descr));
  if (element.code == "i2") widen<int16_t, int32_t>(array, name, header.data_offset);
  if (element.code == "u2") widen<uint16_t, int32_t>(array, name, header.data_offset);
  if (element.code == "u4") widen<uint32_t, int64_t>(array, name, header.data_offset);
  if (element.code == "u8") widen<uint64_t, int64_t>(array, name, header.data_offset);
  if (element.dtype == DType::b8) to_booleans(array.bytes);
  return array;
}

void write_npy(const std::filesystem::path& path, const HostArray& array) {
  if (is_narrow_float(array.dtype) && array.dtype != DType::f16) {
    write_npy(path, from_doubles(DType::f32, array.shape, to_doubles(array)));
    return;
  }
  const std::string header = format_npy_header(descr_of(array.dtype), array.shape);
  write_file_atomically(path, {bytes_of(header), Bytes(array.bytes)});
}

}  // namespace athanor
