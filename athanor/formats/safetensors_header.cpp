#include "athanor/formats/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/formats/bytes.h"
#include "athanor/formats/crc32.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view metadata_key = "__metadata__";
constexpr const char* header_crc_key = "athanor.crc32.header";
constexpr const char* tensor_crcs_key = "athanor.crc32.tensors";
constexpr std::string_view no_crc = "00000000";

// The name of each DType. (The format calls OCP's types so: F8_E4M3 is the one without infinities.)
constexpr std::string_view dtype_names[] = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2",
                                            "I64", "I32", "I8",  "U8",   "BOOL"};

DType dtype_of_name(const std::string& dtype, const std::string& name, const std::string& field) {
  const auto* found = std::find(std::begin(dtype_names), std::end(dtype_names), dtype);
  if (found == std::end(dtype_names))
    throw format_error(fmt::format("dtype '{}' is not supported", dtype), name, field,
                       fmt::format("Convert the tensor to one of {}", fmt::join(dtype_names, ", ")));
  return static_cast<DType>(found - std::begin(dtype_names));
}

/// Parses JSON. A duplicate key is an error; the JSON library would silently accept it.
json parse_json(std::string_view text, const std::string& name) {
  std::vector<std::set<std::string>> keys;  // one set for each open object
  const auto check = [&](int /*depth*/, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw format_error(fmt::format("the key '{}' is there twice", parsed.get<std::string>()), name,
                         "header");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& error) {
    throw format_error("the header is not valid JSON", name,
                       byte_place(safetensors_length_bytes + error.byte));
  } catch (const json::exception& error) {
    throw format_error(fmt::format("the header is not valid JSON: {}", error.what()), name, "header");
  }
}

/// The list of non-negative integers under `key` of a tensor's entry.
Ints integers(const json& entry, const char* key, const std::string& name, const std::string& field) {
  const auto list = entry.find(key);
  Ints result;
  if (list == entry.end() || !list->is_array())
    throw format_error(fmt::format("'{}' is missing or not a list", key), name, field);
  for (const json& item : *list) {
    const auto* value = item.get_ptr<const json::number_unsigned_t*>();
    if (value == nullptr || *value > static_cast<uint64_t>(INT64_MAX))
      throw format_error(fmt::format("'{}' holds something that is not an integer from 0 to 2^63 - 1", key),
                         name, field);
    result.push_back(static_cast<int64_t>(*value));
  }
  return result;
}

SafeTensorsHeader::Tensor parse_tensor(const json& entry, uint64_t data_size, const std::string& name,
                                       const std::string& field) {
  if (!entry.is_object()) throw format_error("not an object with dtype, shape and data_offsets", name, field);
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string())
    throw format_error("'dtype' is missing or not a string", name, field);
  SafeTensorsHeader::Tensor tensor{};
  tensor.dtype = dtype_of_name(dtype->get<std::string>(), name, field);
  tensor.shape = shape_from_file(integers(entry, "shape", name, field), name, field);
  const Ints offsets = integers(entry, "data_offsets", name, field);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw format_error("'data_offsets' is not [begin, end] with begin <= end", name, field);
  tensor.begin = static_cast<uint64_t>(offsets[0]);
  tensor.end = static_cast<uint64_t>(offsets[1]);
  if (tensor.end > data_size)
    throw format_error(fmt::format("the tensor ends at byte {} of {} bytes of data", tensor.end, data_size),
                       name, field);
  check_payload(tensor.shape, size_of(tensor.dtype), tensor.end - tensor.begin, name, field);
  return tensor;
}

std::map<std::string, std::string> parse_metadata(const json& entry, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) throw format_error("the metadata is not an object", name, "field '__metadata__'");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      throw format_error(fmt::format("the metadata '{}' is not a string", key), name, "field '__metadata__'");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// Throws unless the tensors cover the data from its first to its last byte, each byte once.
void check_coverage(const SafeTensorsHeader& header, uint64_t data_size, const std::string& name) {
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, std::string_view>> ranges;
  ranges.reserve(header.tensors.size());
  for (const auto& [key, tensor] : header.tensors) ranges.push_back({{tensor.begin, tensor.end}, key});
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = 0;
  for (const auto& [range, key] : ranges) {
    if (range.first != covered)
      throw format_error(
          fmt::format("the tensor starts at byte {} of the data, {} the one before, which ends at {}",
                      range.first, range.first < covered ? "inside" : "leaving a gap after", covered),
          name, fmt::format("tensor '{}'", key));
    covered = range.second;
  }
  if (covered != data_size)
    throw format_error(fmt::format("{} bytes of data are there, the tensors take {}", data_size, covered),
                       name, byte_place(header.data_offset + covered));
}

/// The position of the digits of the header's own checksum; npos if there are none. In strings of the JSON a
/// quote has a backslash before it, so this text is found nowhere else.
size_t place_of_header_crc(std::string_view text) {
  const std::string before = fmt::format("\"{}\":\"", header_crc_key);
  const size_t at = text.find(before);
  return at == std::string_view::npos || text.size() - at - before.size() < no_crc.size()
             ? std::string_view::npos
             : at + before.size();
}

uint32_t header_crc(Bytes field, std::string_view text, size_t place) {
  return crc32_of({field, bytes_of(text.substr(0, place)), bytes_of(no_crc),
                   bytes_of(text.substr(place + no_crc.size()))});
}

Error damaged_header(std::string what, const std::string& name) {
  return format_error("the header is damaged: " + std::move(what), name, "header", safetensors_damage_hint);
}

void check_header_crc(Bytes field, std::string_view text, const std::string& name) {
  const size_t place = place_of_header_crc(text);
  if (place == std::string_view::npos) return;
  const std::string_view stored = text.substr(place, no_crc.size());
  const std::string found = crc32_text(header_crc(field, text, place));
  if (found != stored)
    throw damaged_header(fmt::format("its checksum is {}, that of what was written {}", found, stored), name);
}

/// Moves the checksums from the metadata to where they belong.
void take_checksums(SafeTensorsHeader& header, std::string_view text, const std::string& name) {
  const auto of_header = header.metadata.extract(header_crc_key);
  const auto of_tensors = header.metadata.extract(tensor_crcs_key);
  if (of_header.empty() && of_tensors.empty()) return;
  // One without the other is an error, so that no damage makes a file look like one without checksums.
  if (of_header.empty() || of_tensors.empty() || place_of_header_crc(text) == std::string_view::npos)
    throw damaged_header("its checksums are not whole", name);
  const json all = json::parse(of_tensors.mapped(), nullptr, false);
  for (auto& [key, tensor] : header.tensors) {
    const auto stored = all.is_object() ? all.find(key) : all.end();
    if (stored == all.end() || !stored->is_string() ||
        !(tensor.crc32 = crc32_from_text(stored->get<std::string>())))
      throw damaged_header(fmt::format("it has no checksum of the tensor '{}'", key), name);
  }
}

}  // namespace

uint64_t parse_safetensors_length(Bytes field, uint64_t file_size, const std::string& name) {
  if (std::min<uint64_t>(field.size(), file_size) < safetensors_length_bytes)
    throw format_error(
        fmt::format("a safetensors file starts with 8 bytes of header length, this one has {} bytes",
                    file_size),
        name, byte_place(0));
  const auto length = load<uint64_t>(field.data(), std::endian::little);
  if (length > longest_header)
    throw format_error(
        fmt::format("a header of {} bytes is declared, at most {} are allowed", length, longest_header), name,
        byte_place(0), "This may not be a safetensors file, or it is corrupt");
  if (length > file_size - safetensors_length_bytes)
    throw format_error(fmt::format("a header of {} bytes is declared but {} bytes are left", length,
                                   file_size - safetensors_length_bytes),
                       name, byte_place(0));
  return length;
}

SafeTensorsHeader parse_safetensors_header(Bytes field, std::string_view text, uint64_t file_size,
                                           const std::string& name) {
  check_header_crc(field, text, name);
  if (!text.starts_with('{'))
    throw format_error("the header does not start with '{'", name, byte_place(safetensors_length_bytes));
  const json entries = parse_json(text, name);
  SafeTensorsHeader header{};
  header.data_offset = safetensors_length_bytes + text.size();
  const uint64_t data_size = file_size - header.data_offset;
  for (const auto& [key, entry] : entries.items()) {
    if (key == metadata_key) {
      header.metadata = parse_metadata(entry, name);
    } else {
      header.tensors[key] = parse_tensor(entry, data_size, name, fmt::format("tensor '{}'", key));
    }
  }
  check_coverage(header, data_size, name);
  take_checksums(header, text, name);
  return header;
}

std::string format_safetensors_header(std::span<const NamedArray> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  json checksums = json::object();
  uint64_t offset = 0;
  for (const auto& [key, array] : tensors) {
    if (key == metadata_key) throw Error(ErrorCode::value, "a tensor must not be called '__metadata__'");
    header[std::string(key)] = {{"dtype", dtype_names[static_cast<size_t>(array->dtype)]},
                                {"shape", array->shape.to_ints()},
                                {"data_offsets", {offset, offset + array->bytes.size()}}};
    checksums[std::string(key)] = crc32_text(crc32_of({array->bytes}));
    offset += array->bytes.size();
  }
  std::string text;
  try {
    json& strings = header[std::string(metadata_key)] = metadata;
    strings[tensor_crcs_key] = checksums.dump();
    strings[header_crc_key] = no_crc;
    text = header.dump();
  } catch (const json::exception&) {
    throw Error(ErrorCode::value, "a tensor's name or a metadata string is not valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > longest_header)
    throw Error(ErrorCode::value, fmt::format("the safetensors header takes {} bytes, at most {} are allowed",
                                              text.size(), longest_header));
  std::string field;
  for (uint64_t i = 0; i < safetensors_length_bytes; ++i)
    field += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  const size_t place = place_of_header_crc(text);
  text.replace(place, no_crc.size(), crc32_text(header_crc(bytes_of(field), text, place)));
  return field + text;
}

}  // namespace athanor
