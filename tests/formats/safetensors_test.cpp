#include "athanor/formats/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::corpus_file;
using testing::corpus_path;
using testing::expect_error;
using testing::ramp;
using testing::TempFolder;

std::vector<std::byte> safetensors_file(const std::string& header, size_t payload) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  text += header + std::string(payload, '\0');
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

/// A tensor of every dtype, and special cases: scalar, empty, NaN, a name that JSON must escape.
SafeTensors every_kind() {
  SafeTensors content;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    content.tensors[std::string(to_string(dtype))] = from_doubles(dtype, {2, 2, 3}, ramp(1, 3));
  }
  content.tensors["scalar"] = from_doubles(DType::f32, {}, std::vector<double>{2.5});
  content.tensors["empty"] = HostArray(DType::f64, {3, 0});
  content.tensors["nan"] = from_doubles(DType::f32, {1}, std::vector<double>{std::nan("")});
  content.tensors["layer.\"1\"/weight \u00e9"] = from_doubles(DType::u8, {3}, std::vector<double>{1, 2, 3});
  content.metadata = {{"step", "7"}, {"plan", "{\"a\": [1, 2]}\n"}};
  return content;
}

void expect_same(const SafeTensors& a, const SafeTensors& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, array] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    EXPECT_EQ(array.dtype, b.tensors.at(name).dtype) << name;
    EXPECT_EQ(array.shape, b.tensors.at(name).shape) << name;
    EXPECT_EQ(array.bytes, b.tensors.at(name).bytes) << name;
  }
}

TEST(SafeTensors, ReadsWhatTheReferenceWrote) {
  const SafeTensors content = read_safetensors(corpus_path("safetensors/all"));
  EXPECT_EQ(content.metadata.at("step"), "12");
  EXPECT_EQ(content.metadata.at("quote"), "a \"b\" \u00e9");
  EXPECT_EQ(content.tensors.size(), 10);
  for (const char* name : {"f64", "f32", "f16"})
    EXPECT_EQ(to_doubles(content.tensors.at(name)), ramp(0.5)) << name;
  for (const char* name : {"i64", "i32", "i8"})
    EXPECT_EQ(to_doubles(content.tensors.at(name)), ramp()) << name;
  EXPECT_EQ(to_doubles(content.tensors.at("u8")), ramp(1, 3));
  EXPECT_EQ(to_doubles(content.tensors.at("bool")),
            (std::vector<double>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(content.tensors.at("f16").dtype, DType::f16);
  EXPECT_EQ(content.tensors.at("scalar").shape, Shape{});
  EXPECT_EQ(content.tensors.at("empty").shape, (Shape{0, 3}));
  const SafeTensors bf16 = read_safetensors(corpus_path("safetensors/bf16"));
  EXPECT_EQ(to_doubles(bf16.tensors.at("w")), (std::vector<double>{1, -2, INFINITY}));
  EXPECT_TRUE(read_safetensors(corpus_path("safetensors/none")).tensors.empty());
}

TEST(SafeTensors, RoundTrips) {
  const TempFolder folder;
  const SafeTensors content = every_kind();
  write_safetensors(folder / "f", content);
  expect_same(read_safetensors(folder / "f"), content);
  EXPECT_EQ(read_file(folder / "f"), format_safetensors(content));
  expect_same(parse_safetensors(format_safetensors({}), "f"), {});
}

TEST(SafeTensors, ElementsAreAligned) {
  const TempFolder folder;
  write_safetensors(folder / "f", every_kind());
  const SafeTensorsHeader header = read_safetensors_header(folder / "f");
  EXPECT_EQ(header.data_offset % 8, 0);
  for (const auto& [name, tensor] : header.tensors)
    EXPECT_EQ(tensor.begin % size_of(tensor.dtype), 0) << name;
}

TEST(SafeTensors, HeaderAloneListsTheTensors) {
  const SafeTensorsHeader header = read_safetensors_header(corpus_path("safetensors/all"));
  EXPECT_EQ(header.tensors.size(), 10);
  EXPECT_EQ(header.tensors.at("f64").shape, (Shape{2, 2, 3}));
  EXPECT_EQ(header.tensors.at("f64").end - header.tensors.at("f64").begin, 96);
  EXPECT_EQ(header.metadata.at("step"), "12");
}

// The reference package reads our file and finds the same tensors: safetensors_reference.py.
TEST(SafeTensors, LoadsInTheReferencePackage) {
  const char* chosen = std::getenv("ATHANOR_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  if (std::system((python + " -c 'import numpy, safetensors' 2> /dev/null").c_str()) != 0)
    GTEST_SKIP()
        << "'" << python
        << "' has no numpy and safetensors (tools/reference-python makes one; set ATHANOR_PYTHON to it)";
  const TempFolder folder;
  write_safetensors(folder / "f", every_kind());
  const std::string command = fmt::format("{} {}/tests/formats/safetensors_reference.py {}", python,
                                          ATHANOR_SOURCE_DIR, (folder / "f").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(SafeTensors, EveryTruncationIsAnError) {
  for (const char* name : {"safetensors/all", "safetensors/one", "safetensors/none"}) {
    const auto data = corpus_file(name);
    for (size_t length = 0; length < data.size(); ++length)
      expect_error(ErrorCode::format, {"cut.st"},
                   [&] { parse_safetensors(Bytes(data).first(length), "cut.st"); });
  }
}

TEST(SafeTensors, TruncatedFilesAreErrorsToo) {
  const TempFolder folder;
  const auto data = corpus_file("safetensors/one");
  for (const size_t length : {size_t{0}, size_t{7}, size_t{20}, data.size() - 1}) {
    write_file_atomically(folder / "f", {Bytes(data).first(length)});
    expect_error(ErrorCode::format, {(folder / "f").string()}, [&] { read_safetensors(folder / "f"); });
    expect_error(ErrorCode::format, {(folder / "f").string()},
                 [&] { read_safetensors_header(folder / "f"); });
  }
  expect_error(ErrorCode::io, {"cannot read", "nothing"}, [&] { read_safetensors(folder / "nothing"); });
}

TEST(SafeTensors, ErrorsNameTheTensorAndTheFault) {
  const auto expect = [](const std::vector<std::string>& words, const std::string& header, size_t payload) {
    expect_error(ErrorCode::format, words,
                 [&] { parse_safetensors(safetensors_file(header, payload), "f.st"); });
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect({"does not start with '{'", "f.st, byte 8"}, " {}", 0);
  expect({"not valid JSON", "f.st, byte"}, "{" + a, 4);
  expect({"'a' is there twice"}, "{" + a + "," + a + "}", 4);
  expect({"'dtype' is there twice"}, R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
         4);
  expect({"leaving a gap after", "ends at 4", "tensor 'b'"},
         "{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}})", 7);
  expect({"inside", "tensor 'b'"}, "{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5);
  expect({"leaving a gap after"}, R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2);
  expect({"9 bytes of data are there, the tensors take 4"}, "{" + a + "}", 9);
  expect({"ends at byte 4 of 3"}, "{" + a + "}", 3);
  expect({"4 elements of 4 bytes", "tensor 'a'"}, R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})",
         4);
  expect({"dtype 'C64' is not supported", "F64, F32"},
         R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8);
  expect({"begin <= end"}, R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[4,0]}})", 4);
  expect({"'shape' holds something"}, R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", 4);
  expect({"'shape' holds something"}, R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4);
  expect({"'shape' is missing"}, R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", 4);
  expect({"too many elements"},
         R"({"a":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0);
  expect({"not an object"}, R"({"a":[]})", 0);
  expect({"'step' is not a string", "__metadata__"}, R"({"__metadata__":{"step":1}})", 0);
  const unsigned char long_header[8] = {0x01, 0xe1, 0xf5, 0x05};
  expect_error(ErrorCode::format, {"100000001", "at most 100000000"},
               [&] { parse_safetensors(std::as_bytes(std::span(long_header)), "f.st"); });
}

// A flipped bit in a tensor is reported with its name, and a flipped bit anywhere else is found too.
TEST(SafeTensors, EveryFlippedBitIsFound) {
  std::vector<std::byte> data = format_safetensors(every_kind());
  const TempFolder folder(TempFolder::Where::memory);
  write_file_atomically(folder / "f", {Bytes(data)});
  const SafeTensorsHeader header = read_safetensors_header(folder / "f");
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    const size_t at = bit / 8;
    std::string tensor;
    for (const auto& [name, place] : header.tensors)
      if (at >= header.data_offset + place.begin && at < header.data_offset + place.end)
        tensor = "tensor '" + name + "'";
    ASSERT_TRUE(at < header.data_offset || !tensor.empty()) << at;
    data[at] ^= std::byte(1 << bit % 8);
    expect_error(ErrorCode::format, {"f.st", tensor.empty() ? "" : "the tensor is damaged", tensor},
                 [&] { parse_safetensors(data, "f.st"); });
    data[at] ^= std::byte(1 << bit % 8);
  }
  expect_same(parse_safetensors(data, "f.st"), every_kind());
}

TEST(SafeTensors, HeadersAloneAreCheckedToo) {
  const TempFolder folder;
  write_safetensors(folder / "f", every_kind());
  std::vector<std::byte> data = read_file(folder / "f");
  data[read_safetensors_header(folder / "f").data_offset - 1] ^= std::byte{1};  // padding
  write_file_atomically(folder / "f", {Bytes(data)});
  expect_error(ErrorCode::format, {"the header is damaged", (folder / "f").string()},
               [&] { read_safetensors_header(folder / "f"); });
}

// Other programs, and earlier versions of this one, write such files.
TEST(SafeTensors, FilesWithoutChecksumsAreReadAsTheyAre) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const SafeTensors content = parse_safetensors(safetensors_file(header, 2), "f.st");
  EXPECT_EQ(content.tensors.at("a").shape, (Shape{2}));
  EXPECT_FALSE(read_safetensors_header(corpus_path("safetensors/all")).tensors.at("f32").crc32);
}

TEST(SafeTensors, ChecksumsThatAreNotWholeAreAnError) {
  for (const char* metadata : {R"("athanor.crc32.header":"00000000")", R"("athanor.crc32.tensors":"{}")"}) {
    const std::string header = std::string(R"({"__metadata__":{)") + metadata + "}}";
    expect_error(ErrorCode::format, {"the header is damaged"},
                 [&] { parse_safetensors(safetensors_file(header, 0), "f.st"); });
  }
}

TEST(SafeTensors, RefusesToWriteWhatCannotBeRead) {
  SafeTensors reserved, not_text;
  reserved.tensors["__metadata__"] = HostArray(DType::u8, {1});
  not_text.tensors["\xff"] = HostArray(DType::u8, {1});
  expect_error(ErrorCode::value, {"__metadata__"}, [&] { format_safetensors(reserved); });
  expect_error(ErrorCode::value, {"UTF-8"}, [&] { format_safetensors(not_text); });
}

}  // namespace
}  // namespace athanor
