#include "athanor/data/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/numbers.h"

namespace athanor {
namespace {

constexpr size_t most_categories = 1000, most_table_classes = 1000;

std::optional<double> number_in(const std::string& field) {
  const std::string text = trim(field);
  double value = 0;
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, failed] = std::from_chars(first, text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

ColumnEncoding learn_column(const CsvTable& table, const std::vector<size_t>& rows, size_t column,
                            const std::string& name) {
  ColumnEncoding result;
  result.name = table.columns[column];
  std::set<std::string> categories;
  double count = 0, sum = 0, squares = 0;
  bool numbers = true;
  for (const size_t row : rows) {
    const std::string& field = table.rows[row][column];
    if (is_missing(field)) {
      result.may_miss = true;
      continue;
    }
    if (categories.size() <= most_categories) categories.insert(trim(field));
    const auto number = number_in(field);
    numbers &= number.has_value();
    if (number) ++count, sum += *number, squares += *number * *number;
  }
  if (numbers) {
    if (count > 0) result.mean = sum / count;
    const double variance = count > 0 ? squares / count - result.mean * result.mean : 0;
    result.stddev = variance > 1e-12 * result.mean * result.mean ? std::sqrt(variance) : 1;
    return result;
  }
  if (categories.size() > most_categories)
    throw Error(ErrorCode::value,
                fmt::format("the column '{}' is not of numbers and has more than {} different values",
                            result.name, most_categories),
                name, "Leave it out, or group its values");
  result.categories.assign(categories.begin(), categories.end());
  return result;
}

/// How many inputs a column takes: a number, and whether it is missing; or one for each category.
size_t width_of(const ColumnEncoding& column) {
  return column.categories.empty() ? (column.may_miss ? 2 : 1) : column.categories.size();
}

/// The first row below the names is example 1.
std::string example_place(const std::string& name, size_t row) {
  return fmt::format("{}, example {}", name, row + 1);
}

void encode(const ColumnEncoding& column, const std::string& field, float* out, const std::string& place) {
  if (!column.categories.empty()) {  // a missing or new category has no input
    const auto found = std::ranges::lower_bound(column.categories, trim(field));
    if (found != column.categories.end() && *found == trim(field)) out[found - column.categories.begin()] = 1;
    return;
  }
  if (is_missing(field)) {
    if (column.may_miss) out[1] = 1;  // else it was never missing in training: its mean
    return;
  }
  const auto number = number_in(field);
  if (!number)
    throw Error(ErrorCode::value,
                fmt::format("'{}' is not a number, as the column '{}' holds", field, column.name), place,
                "Mend the field, or leave it empty");
  out[0] = static_cast<float>((*number - column.mean) / column.stddev);
}

/// Learns all columns except `left_out`.
void learn_columns(const CsvTable& table, const std::vector<size_t>& rows,
                   const std::vector<size_t>& left_out, const std::string& name, ExampleSpec& spec) {
  size_t width = 0;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (std::ranges::find(left_out, column) != left_out.end()) continue;
    spec.columns.push_back(learn_column(table, rows, column, name));
    width += width_of(spec.columns.back());
  }
  if (width == 0)
    throw Error(ErrorCode::value, "there is no column but the target", name, "Give columns to learn from");
  spec.input = {1, 1, static_cast<int64_t>(width)};
  spec.normalization = {{0.0F}, {1.0F}};
}

/// Throws for a target column of numbers that are nearly all different: they are not classes.
void refuse_numbers(const CsvTable& table, const std::vector<size_t>& rows, size_t label,
                    const std::string& name) {
  std::set<std::string> values;
  for (const size_t row : rows) {
    const std::string& field = table.rows[row][label];
    if (!number_in(field)) return;
    values.insert(trim(field));
  }
  constexpr size_t few = 10;
  if (values.size() < few || 2 * values.size() < rows.size()) return;
  throw Error(ErrorCode::usage,
              fmt::format("the column '{}' holds {} different numbers in {} rows, which are no classes",
                          table.columns[label], values.size(), rows.size()),
              name, "To predict numbers: --task regression. To predict another column: --target COLUMN");
}

}  // namespace

bool is_missing(const std::string& field) {
  static const std::set<std::string> words = {"",    "NA",   "N/A",  "na",   "nan", "NaN",
                                              "NAN", "null", "NULL", "None", "?"};
  return words.contains(trim(field));
}

size_t label_column(const CsvTable& table) {
  for (const char* name : {"label", "class", "target", "y"})
    for (size_t i = 0; i < table.columns.size(); ++i)
      if (table.columns[i].size() == std::string_view(name).size() &&
          contains_ignoring_case(table.columns[i], name))
        return i;
  return table.columns.size() - 1;
}

std::vector<size_t> columns_named(const CsvTable& table, const std::vector<std::string>& names,
                                  const std::string& place) {
  std::vector<size_t> columns;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table.columns, name);
    if (found == table.columns.end())
      throw Error(ErrorCode::usage, fmt::format("there is no column '{}'", name), place,
                  fmt::format("The table has {}", join(table.columns)));
    columns.push_back(static_cast<size_t>(found - table.columns.begin()));
  }
  return columns;
}

std::vector<size_t> target_columns(const CsvTable& table, const std::string& names,
                                   const std::string& place) {
  if (names.empty()) return {label_column(table)};
  std::vector<std::string> each;
  for (const std::string& name : split(names, ',')) each.push_back(trim(name));
  return columns_named(table, each, place);
}

ExampleSpec learn_table(const CsvTable& table, const std::vector<size_t>& rows, size_t label,
                        const std::string& name) {
  refuse_numbers(table, rows, label, name);
  ExampleSpec spec;
  std::set<std::string> classes;
  for (const size_t row : rows) {
    const std::string name_of_class = trim(table.rows[row][label]);
    if (name_of_class.empty())
      throw Error(ErrorCode::value, fmt::format("the class is missing: '{}' is empty", table.columns[label]),
                  example_place(name, row), "Fill it in, or take the row out");
    classes.insert(name_of_class);
  }
  if (classes.size() > most_table_classes)
    throw Error(ErrorCode::value,
                fmt::format("the column '{}' has more than {} different values: it holds no class",
                            table.columns[label], most_table_classes),
                name, "Call the column of the class 'label', or put it last");
  spec.class_names.assign(classes.begin(), classes.end());
  spec.classes = static_cast<int64_t>(classes.size());
  learn_columns(table, rows, {label}, name, spec);
  return spec;
}

std::vector<double> numbers_in(const CsvTable& table, const std::vector<size_t>& rows,
                               const std::vector<size_t>& columns, const std::string& name) {
  std::vector<double> numbers;
  for (const size_t row : rows)
    for (const size_t column : columns) {
      const auto number = number_in(table.rows[row][column]);
      if (!number)
        throw Error(ErrorCode::value,
                    fmt::format("'{}' is not a number, as the target '{}' must be", table.rows[row][column],
                                table.columns[column]),
                    example_place(name, row), "Mend the field, or take the row out");
      numbers.push_back(*number);
    }
  return numbers;
}

ExampleSpec learn_number_table(const CsvTable& table, const std::vector<size_t>& rows,
                               const std::vector<size_t>& targets, const std::string& name) {
  ExampleSpec spec;
  spec.classes = std::ssize(targets);
  for (const size_t column : targets) spec.class_names.push_back(table.columns[column]);
  spec.targets = target_scales(numbers_in(table, rows, targets, name), targets.size());
  learn_columns(table, rows, targets, name, spec);
  return spec;
}

HostArray encode_rows(const CsvTable& table, const std::vector<size_t>& rows, const ExampleSpec& spec,
                      const std::string& name) {
  std::vector<size_t> sources;  // the index of each encoded column in this table
  for (const ColumnEncoding& column : spec.columns) {
    const auto found = std::ranges::find(table.columns, column.name);
    if (found == table.columns.end())
      throw Error(ErrorCode::value, fmt::format("the column '{}' is missing", column.name), name,
                  fmt::format("It was there in training; the table has {}", join(table.columns)));
    sources.push_back(static_cast<size_t>(found - table.columns.begin()));
  }
  HostArray inputs(DType::f32, spec.input.insert(0, static_cast<int64_t>(rows.size())));
  float* out = inputs.as<float>().data();
  for (const size_t row : rows)
    for (size_t i = 0; i < sources.size(); ++i) {
      encode(spec.columns[i], table.rows[row][sources[i]], out, example_place(name, row));
      out += width_of(spec.columns[i]);
    }
  return inputs;
}

TableDataset::TableDataset(const CsvTable& table, const std::vector<size_t>& rows, ExampleSpec spec,
                           size_t label, const std::string& name)
    : spec_(std::move(spec)), inputs_(encode_rows(table, rows, spec_, name)) {
  for (const size_t row : rows) {
    const auto found = std::ranges::find(spec_.class_names, trim(table.rows[row][label]));
    if (found == spec_.class_names.end())
      throw Error(ErrorCode::value,
                  fmt::format("the class '{}' was not among those of training: {}", table.rows[row][label],
                              join(spec_.class_names)),
                  example_place(name, row), "Test and training examples must have the same classes");
    labels_.push_back(found - spec_.class_names.begin());
  }
}

void TableDataset::read(int64_t index, float* input_out, int64_t& label_out) const {
  const int64_t width = spec_.input.size();
  std::copy_n(inputs_.as<float>().data() + index * width, width, input_out);
  label_out = labels_[static_cast<size_t>(index)];
}

}  // namespace athanor
