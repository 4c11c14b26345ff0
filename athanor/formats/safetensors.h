// safetensors: named tensors in one file, after https://github.com/huggingface/safetensors#format
//
// 8 bytes of header length N (u64, little-endian), N bytes of JSON, then the elements, little-endian and
// row-major, tensor after tensor without gaps. Headers are padded with spaces so that the elements start at a
// multiple of 8; tensors are ordered by falling element size, then name, so that each one is aligned.
//
// Files written by Athanor hold checksums, in two strings of the metadata, which other readers ignore:
// "athanor.crc32.tensors" is a JSON object of each tensor's CRC-32, "athanor.crc32.header" the CRC-32 of the
// length field and the header, with this number itself taken as 00000000. So every flipped bit is detected.
// Files without checksums are read without verification.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

struct SafeTensors {
  std::map<std::string, HostArray> tensors;
  std::map<std::string, std::string> metadata;
};

/// The header's content, without the elements.
struct SafeTensorsHeader {
  struct Tensor {
    DType dtype;
    Shape shape;
    uint64_t begin, end;                 // bytes from data_offset
    std::optional<uint32_t> crc32 = {};  // of its bytes, if the file has it
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_offset;  // bytes before the first element
};

/// The tensors and metadata of a file, read straight into their arrays. Throws Error(io) when it cannot be
/// read, and Error(format) when it is not one whole safetensors file: a header that is too long (over 100
/// MB), is not JSON or has a key twice; an unknown dtype; offsets that overlap, leave a gap, or do not fit
/// their shape or the file; a wrong checksum. The returned metadata does not include the checksums.
SafeTensors read_safetensors(const std::filesystem::path& path);
/// The same from memory; `name` stands for the file in errors.
SafeTensors parse_safetensors(Bytes data, const std::string& name);

/// The header alone, with its checksum, checked in the same way against the size of the file; reads no
/// elements.
SafeTensorsHeader read_safetensors_header(const std::filesystem::path& path);

/// Writes a file that read_safetensors and the reference implementation read, atomically. Throws Error(io),
/// and Error(value) for a tensor of the reserved name "__metadata__" or a name that is not UTF-8.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& content);
/// The same into memory.
std::vector<std::byte> format_safetensors(const SafeTensors& content);

}  // namespace athanor
