#include "athanor/formats/idx.h"

#include <fmt/format.h>

#include <array>

#include "athanor/formats/bytes.h"
#include "athanor/formats/gzip.h"

namespace athanor {
namespace {

/// Data in memory, with GzipReader's interface.
class PlainReader {
 public:
  explicit PlainReader(Bytes data) : data_(data) {}
  size_t read(std::span<std::byte> out) {
    const size_t n = std::min(out.size(), data_.size() - at_);
    std::copy_n(data_.begin() + static_cast<std::ptrdiff_t>(at_), n, out.begin());
    at_ += n;
    return n;
  }
  uint64_t bound() const { return data_.size(); }

 private:
  Bytes data_;
  size_t at_ = 0;
};

struct IdxElement {
  DType dtype;
  size_t width;  // bytes in the file
};

IdxElement idx_element_of(std::byte code, const std::string& name) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return {DType::u8, 1};
    case 0x09:
      return {DType::i8, 1};
    case 0x0B:
      return {DType::i32, 2};
    case 0x0C:
      return {DType::i32, 4};
    case 0x0D:
      return {DType::f32, 4};
    case 0x0E:
      return {DType::f64, 8};
    default:
      break;
  }
  throw format_error(fmt::format("unknown IDX element type 0x{:02x}", std::to_integer<int>(code)), name,
                     "byte 2", "Known are 0x08, 0x09, 0x0B, 0x0C, 0x0D and 0x0E");
}

template <class Reader>
void read_exactly(Reader& reader, std::span<std::byte> out, uint64_t offset, const char* what,
                  const std::string& name) {
  const size_t got = reader.read(out);
  if (got < out.size())
    throw format_error(fmt::format("{} more bytes of {} expected, {} found", out.size(), what, got), name,
                       byte_place(offset));
}

HostArray widen_16_to_32(const HostArray& array, Bytes narrow) {
  HostArray wide(DType::i32, array.shape);
  const auto out = wide.as<int32_t>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = load<int16_t>(narrow.data() + 2 * i, std::endian::native);
  return wide;
}

template <class Reader>
HostArray read_array(Reader& reader, const std::string& name) {
  std::array<std::byte, 4> magic{};
  read_exactly(reader, magic, 0, "header", name);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
    throw format_error("not an IDX file: it does not start with two zero bytes", name, "byte 0",
                       "Give an IDX file, such as train-images-idx3-ubyte or the same with .gz");
  const IdxElement element = idx_element_of(magic[2], name);
  const auto rank = std::to_integer<size_t>(magic[3]);
  std::vector<std::byte> raw_extents(4 * rank);
  read_exactly(reader, raw_extents, 4, "extents", name);
  Ints extents(rank);
  for (size_t i = 0; i < rank; ++i) extents[i] = load<uint32_t>(raw_extents.data() + 4 * i, std::endian::big);
  HostArray array;
  array.dtype = element.dtype;
  array.shape = shape_from_file(extents, name, byte_place(4));

  const uint64_t data_offset = 4 + raw_extents.size();
  const auto elements = static_cast<uint64_t>(array.size());
  if (elements > (reader.bound() - std::min(reader.bound(), data_offset)) / element.width)
    throw format_error(
        fmt::format("{} elements of {} bytes each are declared (shape {}), more than the file can hold",
                    elements, element.width, to_string(array.shape)),
        name, byte_place(4));
  array.bytes.resize(static_cast<size_t>(elements) * element.width);
  read_exactly(reader, array.bytes, data_offset, "elements", name);
  std::byte extra{};
  if (reader.read({&extra, 1}) != 0)  // this also verifies the gzip checksum
    throw format_error(fmt::format("there is more data than the shape {} declares", to_string(array.shape)),
                       name, byte_place(data_offset + array.bytes.size()));
  to_native(array.bytes, element.width, std::endian::big);
  return element.width < size_of(element.dtype) ? widen_16_to_32(array, array.bytes) : array;
}

}  // namespace

HostArray read_idx(const std::filesystem::path& path) { return parse_idx(read_file(path), path.string()); }

HostArray parse_idx(Bytes data, const std::string& name) {
  if (is_gzip(data)) {
    GzipReader reader(data, name);
    return read_array(reader, name);
  }
  PlainReader reader(data);
  return read_array(reader, name);
}

}  // namespace athanor
