#include "athanor/data/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"

namespace athanor {

std::vector<TargetScale> target_scales(const std::vector<double>& numbers, size_t columns) {
  std::vector<TargetScale> scales(columns);
  const size_t count = numbers.size() / std::max<size_t>(1, columns);
  if (count == 0) return scales;
  const auto rows = static_cast<double>(count);
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0, squares = 0;
    for (size_t i = column; i < numbers.size(); i += columns) sum += numbers[i];
    const double mean = sum / rows;
    for (size_t i = column; i < numbers.size(); i += columns)
      squares += (numbers[i] - mean) * (numbers[i] - mean);
    const double stddev = std::sqrt(squares / rows);
    scales[column] = {mean, stddev > 1e-12 * std::abs(mean) ? stddev : 1};
  }
  return scales;
}

namespace {

std::vector<double> finite_numbers_in(const HostArray& rows, const std::string& place) {
  if (rows.shape.rank() != 2 || rows.size() == 0)
    throw Error(ErrorCode::shape, fmt::format("rows of shape {}", to_string(rows.shape)), place,
                "They must be [N, F]: a row of F numbers for each example");
  std::vector<double> numbers = to_doubles(rows);
  if (!std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); }))
    throw Error(ErrorCode::value, "an input is NaN or infinite", place, "Fill it in, or take its row out");
  return numbers;
}

}  // namespace

ExampleSpec learn_number_rows(const HostArray& rows, const std::string& place) {
  const std::vector<double> numbers = finite_numbers_in(rows, place);
  ExampleSpec spec;
  spec.input = {1, 1, rows.shape[1]};
  spec.normalization = {{0.0F}, {1.0F}};
  for (const TargetScale& scale : target_scales(numbers, static_cast<size_t>(rows.shape[1])))
    spec.columns.push_back({.name = fmt::format("x{}", spec.columns.size()),
                            .mean = scale.mean,
                            .stddev = scale.stddev,
                            .may_miss = false,
                            .categories = {}});
  return spec;
}

HostArray encode_number_rows(const HostArray& rows, const ExampleSpec& spec, const std::string& place) {
  const std::vector<double> numbers = finite_numbers_in(rows, place);
  const size_t width = spec.columns.size();
  if (rows.shape[1] != std::ssize(spec.columns) || spec.input.size() != rows.shape[1])
    throw Error(ErrorCode::shape,
                fmt::format("rows of {} numbers, where training had {}", rows.shape[1], spec.input.size()),
                place);
  HostArray inputs(DType::f32, {rows.shape[0], 1, 1, rows.shape[1]});
  const auto out = inputs.as<float>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const ColumnEncoding& column = spec.columns[i % width];
    out[i] = static_cast<float>((numbers[i] - column.mean) / column.stddev);
  }
  return inputs;
}

void RowsDataset::read(int64_t index, float* out, int64_t& label_out) const {
  const int64_t width = spec_.input.size();
  std::copy_n(rows_.as<float>().data() + index * width, width, out);
  label_out = 0;
}

NumbersDataset::NumbersDataset(std::shared_ptr<const Dataset> inputs, std::vector<double> numbers,
                               std::vector<std::string> names, std::vector<TargetScale> scales)
    : inputs_(std::move(inputs)), numbers_(std::move(numbers)), spec_(inputs_->spec()) {
  spec_.classes = std::ssize(names);
  spec_.class_names = std::move(names);
  spec_.targets = std::move(scales);
  if (std::ssize(numbers_) != size() * spec_.classes || std::ssize(spec_.targets) != spec_.classes)
    throw Error(ErrorCode::shape, fmt::format("{} numbers for {} examples with {} targets each",
                                              numbers_.size(), size(), spec_.classes));
}

void NumbersDataset::numbers(int64_t index, float* out) const {
  const size_t columns = spec_.targets.size();
  for (size_t i = 0; i < columns; ++i) {
    const TargetScale& scale = spec_.targets[i];
    out[i] =
        static_cast<float>((numbers_[static_cast<size_t>(index) * columns + i] - scale.mean) / scale.stddev);
  }
}

}  // namespace athanor
