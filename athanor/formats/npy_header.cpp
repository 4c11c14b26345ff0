#include "athanor/formats/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "athanor/formats/bytes.h"

namespace athanor {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t alignment = 64;

/// Reads the dictionary, a literal of Python strings, booleans and a tuple of integers.
class DictionaryParser {
 public:
  /// `text` starts at byte `offset` of the file.
  DictionaryParser(std::string_view text, size_t offset, const std::string& name)
      : text_(text), offset_(offset), name_(name) {}

  NpyHeader parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<Ints> extents;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = string();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !extents) {
        extents = tuple();
      } else {
        fail(fmt::format("unknown or repeated key '{}' in the header", key));
      }
      if (accept('}')) break;
      expect(',');
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the header's dictionary");
    if (!descr || !fortran_order || !extents)
      fail("the header lacks one of the keys 'descr', 'fortran_order' and 'shape'");
    return {*descr, *fortran_order, shape_from_file(*extents, name_, "field 'shape'"), 0};
  }

 private:
  [[noreturn]] void fail(std::string what, std::string hint = corrupt_hint) const {
    throw format_error(std::move(what), name_, byte_place(offset_ + at_), std::move(hint));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' expected in the header", c));
  }

  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote == '[') fail("structured arrays are not supported", "Save each field as a separate array");
    if (quote != '\'' && quote != '"') fail("a string expected in the header");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string in the header has no end");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail("True or False expected in the header");
  }

  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc() || value < 0) fail("an extent (an integer, 0 or more) expected in the header");
    at_ = static_cast<size_t>(stop - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers this way
    return value;
  }

  Ints tuple() {
    Ints result;
    expect('(');
    while (!accept(')')) {
      result.push_back(integer());
      if (accept(')')) break;
      expect(',');
    }
    return result;
  }

  std::string_view text_;
  size_t offset_;
  const std::string& name_;
  size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(Bytes data, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  if (!text.starts_with(magic.substr(0, std::min(magic.size(), text.size()))))
    throw format_error("not a NumPy .npy file: it does not start with \\x93NUMPY", name, "byte 0",
                       "Write it with numpy.save(); .npz archives are to be unpacked first");
  const size_t version_end = magic.size() + 2;
  if (data.size() < version_end)
    throw format_error("the file ends in the magic number and version", name, byte_place(data.size()));
  const int major = std::to_integer<int>(data[magic.size()]);
  if (major < 1 || major > 3 || data[magic.size() + 1] != std::byte{0})
    throw format_error(
        fmt::format("unknown .npy version {}.{}", major, std::to_integer<int>(data[magic.size() + 1])), name,
        byte_place(magic.size()), "Versions 1.0, 2.0 and 3.0 are known");
  const size_t width = major == 1 ? 2 : 4;
  const size_t start = version_end + width;
  if (data.size() < start)
    throw format_error("the file ends in the header length", name, byte_place(data.size()));
  const size_t length = major == 1 ? load<uint16_t>(&data[version_end], std::endian::little)
                                   : load<uint32_t>(&data[version_end], std::endian::little);
  if (length > data.size() - start)
    throw format_error(
        fmt::format("a header of {} bytes is declared but {} bytes are left", length, data.size() - start),
        name, byte_place(version_end));
  NpyHeader header = DictionaryParser(text.substr(start, length), start, name).parse();
  header.data_offset = start + length;
  return header;
}

std::string format_npy_header(std::string_view descr, const Shape& shape) {
  std::string extents;
  for (const int64_t extent : shape) extents += fmt::format("{},", extent);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, extents);
  const size_t before = magic.size() + 2 + 2;
  const size_t total = (before + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.append(total - before - text.size() - 1, ' ');
  text += '\n';
  std::string header(magic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace athanor
