#include "athanor/formats/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

/// A version 1.0 file with `dictionary` as its header and `payload` bytes of zeros.
std::vector<std::byte> npy_file(const std::string& dictionary, size_t payload) {
  std::string text("\x93NUMPY\1\0", 8);
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  text += dictionary + std::string(payload, '\0');
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

void expect_npy(const std::string& name, DType dtype, const std::vector<double>& values) {
  const HostArray array = read_npy(corpus_path("npy/" + name));
  EXPECT_EQ(to_string(array.dtype), to_string(dtype)) << name;
  EXPECT_EQ(array.shape, (Shape{2, 2, 3})) << name;
  EXPECT_EQ(to_doubles(array), values) << name;
}

TEST(Npy, ReadsWhatNumpyWrote) {
  std::vector<double> halves;
  for (const double value : ramp(0.5)) halves.push_back(std::trunc(value));
  expect_npy("i1", DType::i8, halves);
  expect_npy("i2", DType::i32, halves);
  expect_npy("i4", DType::i32, halves);
  expect_npy("i8", DType::i64, halves);
  expect_npy("u1", DType::u8, ramp(1, 3));
  expect_npy("u2", DType::i32, ramp(1, 3));
  expect_npy("u4", DType::i64, ramp(1, 3));
  expect_npy("u8", DType::i64, ramp(1, 3));
  expect_npy("b1", DType::b8, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  for (const char* name : {"f4", "big_endian", "fortran", "version2", "version3"})
    expect_npy(name, DType::f32, ramp(0.5));
  expect_npy("f2", DType::f16, ramp(0.5));
  expect_npy("f8", DType::f64, ramp(0.5));
  EXPECT_EQ(read_npy(corpus_path("npy/scalar")).shape, Shape{});
  EXPECT_EQ(to_doubles(read_npy(corpus_path("npy/scalar"))), std::vector<double>{2.5});
  EXPECT_EQ(read_npy(corpus_path("npy/empty")).shape, (Shape{0, 3}));
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const TempFolder folder;
  for (const char* name : {"i1", "i4", "i8", "u1", "b1", "f2", "f4", "f8", "scalar", "empty"}) {
    write_npy(folder / name, read_npy(corpus_path(std::string("npy/") + name)));
    const HostArray again = read_npy(folder / name);
    EXPECT_EQ(again.bytes, read_npy(corpus_path(std::string("npy/") + name)).bytes) << name;
    EXPECT_EQ(read_file(folder / name).size(), corpus_file(std::string("npy/") + name).size()) << name;
  }
  write_npy(folder / "bf16", from_doubles(DType::bf16, {2}, std::vector<double>{1.5, -2}));
  EXPECT_EQ(read_npy(folder / "bf16").dtype, DType::f32);
  EXPECT_EQ(to_doubles(read_npy(folder / "bf16")), (std::vector<double>{1.5, -2}));
  write_npy(folder / "f8", from_doubles(DType::f8e4m3, {2}, std::vector<double>{1.75, -448}));
  EXPECT_EQ(to_doubles(read_npy(folder / "f8")), (std::vector<double>{1.75, -448}));
}

TEST(Npy, ReadsPythonsVariations) {
  const HostArray array =
      parse_npy(npy_file(R"( {"shape":( 2L , 3 ,),"fortran_order":True,"descr":"|u1"}  )", 6), "f");
  EXPECT_EQ(array.shape, (Shape{2, 3}));
}

TEST(Npy, BooleansAreZeroOrOne) {
  auto data = npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2);
  data.back() = std::byte{0x80};
  EXPECT_EQ(parse_npy(data, "f").bytes, (std::vector<std::byte>{std::byte{0}, std::byte{1}}));
}

TEST(Npy, EveryTruncationIsAnError) {
  for (const char* name : {"npy/f4", "npy/fortran", "npy/u8", "npy/version2", "npy/scalar"}) {
    const auto data = corpus_file(name);
    for (size_t length = 0; length < data.size(); ++length)
      expect_error(ErrorCode::format, {"cut.npy"}, [&] { parse_npy(Bytes(data).first(length), "cut.npy"); });
  }
}

TEST(Npy, ErrorsSayWhere) {
  const auto expect = [](const std::vector<std::string>& words, const std::string& dictionary,
                         size_t payload = 0) {
    expect_error(ErrorCode::format, words, [&] { parse_npy(npy_file(dictionary, payload), "f.npy"); });
  };
  expect({"'<c8' is not supported", "field 'descr'", "astype"},
         "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8);
  expect({"'|f4' is not supported"}, "{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4);
  expect({"structured arrays", "Save each field"},
         "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': ()}");
  expect({"lacks one of the keys"}, "{'descr': '<f4'}");
  expect({"repeated key 'descr'", "f.npy, byte"}, "{'descr': '<f4', 'descr': '<f4'}");
  expect({"an extent"}, "{'shape': (-1,)}");
  expect({"too many elements", "field 'shape'"},
         "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}");
  expect({"4611686018427387904 elements of 8 bytes", "0 bytes are there"},
         "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}");
  expect({"2 elements of 4 bytes", "9 bytes are there"},
         "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9);
  expect({"text after"}, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} import os", 8);
  expect_error(ErrorCode::format, {"numpy.save", "byte 0"},
               [] { parse_npy(bytes_of("PK\3\4 an archive"), "f.npz"); });
}

TEST(Npy, UnsignedBeyondI64IsAnError) {
  auto data = npy_file("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", 8);
  data.back() = std::byte{0x80};
  expect_error(ErrorCode::format, {"element 0 is 9223372036854775808"}, [&] { parse_npy(data, "f"); });
}

}  // namespace
}  // namespace athanor
