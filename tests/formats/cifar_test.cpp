#include "athanor/formats/cifar.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

constexpr size_t pixels = 3072;

/// A record whose picture has the i-th byte (i + first) % 251.
std::string record(const std::string& labels, int first) {
  std::string result = labels;
  for (size_t i = 0; i < pixels; ++i) result += static_cast<char>((i + static_cast<size_t>(first)) % 251);
  return result;
}

TEST(Cifar, OfTenClasses) {
  const CifarBatch batch = parse_cifar(bytes_of(record("\3", 0) + record("\11", 7)), Cifar::ten, "f");
  EXPECT_EQ(batch.images.shape, (Shape{2, 3, 32, 32}));
  EXPECT_EQ(to_doubles(batch.labels), (std::vector<double>{3, 9}));
  EXPECT_EQ(batch.images.as<uint8_t>()[5], 5);
  EXPECT_EQ(batch.images.as<uint8_t>()[pixels + 5], 12);
}

TEST(Cifar, OfAHundredTakesTheFineLabel) {
  const CifarBatch batch = parse_cifar(bytes_of(record("\2\x63", 1)), Cifar::hundred, "f");
  EXPECT_EQ(to_doubles(batch.labels), std::vector<double>{99});
  EXPECT_EQ(batch.images.as<uint8_t>()[0], 1);
}

TEST(Cifar, WhatDoesNotFitIsRefused) {
  expect_error(ErrorCode::format, {"3072 bytes", "records of 3073", "f, byte 0"},
               [] { parse_cifar(bytes_of(std::string(pixels, '\0')), Cifar::ten, "f"); });
  expect_error(ErrorCode::format, {"f, byte 0"}, [] { parse_cifar({}, Cifar::ten, "f"); });
  expect_error(ErrorCode::format, {"label of record 1 is 10", "f, byte 3073"},
               [] { parse_cifar(bytes_of(record("\1", 0) + record("\12", 0)), Cifar::ten, "f"); });
}

}  // namespace
}  // namespace athanor
