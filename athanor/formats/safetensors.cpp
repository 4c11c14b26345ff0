#include "athanor/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <system_error>

#include "athanor/base/os/file.h"
#include "athanor/base/os/memory.h"
#include "athanor/formats/bytes.h"
#include "athanor/formats/crc32.h"
#include "athanor/formats/safetensors_header.h"

namespace athanor {
namespace {

/// Content that is read from front to back: a file, or memory.
struct Source {
  uint64_t size;
  std::function<size_t(std::span<std::byte>)> read;  // fills the span, or less at the end
};

SafeTensorsHeader header_of(const Source& source, const std::string& name) {
  std::byte field[safetensors_length_bytes];
  const size_t got = source.read(field);
  std::string text(parse_safetensors_length(Bytes(field, got), source.size, name), '\0');
  const size_t length = source.read(std::as_writable_bytes(std::span(text)));
  if (length < text.size())
    throw format_error("the file ends in the header", name, byte_place(safetensors_length_bytes + length));
  return parse_safetensors_header(Bytes(field), text, source.size, name);
}

SafeTensors read_all(const Source& source, const std::string& name) {
  SafeTensorsHeader header = header_of(source, name);
  if (source.size > os::physical_memory())
    throw Error(ErrorCode::out_of_memory, "the tensors are larger than this machine's memory", name);
  // The tensors are contiguous, so reading them in the order of their offsets reads the file from front to
  // back.
  std::vector<std::pair<const std::string, SafeTensorsHeader::Tensor>*> in_order;
  in_order.reserve(header.tensors.size());
  for (auto& entry : header.tensors) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return a->second.begin < b->second.begin; });

  SafeTensors content;
  content.metadata = std::move(header.metadata);
  for (const auto* entry : in_order) {
    const auto& [key, tensor] = *entry;
    HostArray& array = content.tensors[key] = HostArray(tensor.dtype, tensor.shape);
    if (source.read(array.bytes) < array.bytes.size())
      throw format_error("the file ends in the tensor", name, fmt::format("tensor '{}'", key));
    if (const uint32_t crc = crc32_of({array.bytes}); tensor.crc32 && crc != *tensor.crc32)
      throw format_error(fmt::format("the tensor is damaged: its checksum is {}, that of what was written {}",
                                     crc32_text(crc), crc32_text(*tensor.crc32)),
                         name, fmt::format("tensor '{}'", key), safetensors_damage_hint);
    to_native(array.bytes, size_of(tensor.dtype), std::endian::little);
    if (tensor.dtype == DType::b8) to_booleans(array.bytes);
  }
  return content;
}

template <class Read>
auto with_file(const std::filesystem::path& path, Read read) {
  os::File file = open_to_read(path);
  try {
    return read(Source{file.size(), [&](std::span<std::byte> out) { return file.read(out); }}, path.string());
  } catch (const std::system_error& error) {
    throw file_error("read", path, error.code());
  }
}

std::vector<NamedArray> in_file_order(const SafeTensors& content) {
  std::vector<NamedArray> tensors;
  tensors.reserve(content.tensors.size());
  for (const auto& [key, array] : content.tensors) tensors.emplace_back(key, &array);
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedArray& a, const NamedArray& b) {
    return size_of(a.second->dtype) > size_of(b.second->dtype);
  });
  return tensors;
}

/// Calls `use` with the pieces of the file, in order.
template <class Use>
auto with_parts(const SafeTensors& content, Use use) {
  static_assert(std::endian::native == std::endian::little, "elements are written as they are in memory");
  const std::vector<NamedArray> tensors = in_file_order(content);
  const std::string header = format_safetensors_header(tensors, content.metadata);
  std::vector<Bytes> parts{bytes_of(header)};
  for (const auto& [key, array] : tensors) parts.emplace_back(array->bytes);
  return use(std::span<const Bytes>(parts));
}

}  // namespace

SafeTensors read_safetensors(const std::filesystem::path& path) { return with_file(path, read_all); }

SafeTensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  return with_file(path, header_of);
}

SafeTensors parse_safetensors(Bytes data, const std::string& name) {
  Bytes left = data;
  return read_all({data.size(),
                   [&](std::span<std::byte> out) {
                     const size_t n = std::min(out.size(), left.size());
                     std::copy_n(left.begin(), n, out.begin());
                     left = left.subspan(n);
                     return n;
                   }},
                  name);
}

void write_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  with_parts(content, [&](std::span<const Bytes> parts) { write_file_atomically(path, parts); });
}

std::vector<std::byte> format_safetensors(const SafeTensors& content) {
  return with_parts(content, [](std::span<const Bytes> parts) {
    std::vector<std::byte> data;
    for (const Bytes part : parts) data.insert(data.end(), part.begin(), part.end());
    return data;
  });
}

}  // namespace athanor
