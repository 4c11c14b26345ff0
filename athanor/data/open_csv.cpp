#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/held_out.h"
#include "athanor/data/numbers.h"
#include "athanor/data/openers.h"
#include "athanor/data/table.h"
#include "athanor/formats/csv.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// train.csv of a folder, test.csv, ...; an empty path if there is none.
fs::path table_in(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (const char* ending : {".csv", ".tsv"}) {
      std::error_code ignored;
      if (fs::exists(folder / (std::string(name) + ending), ignored))
        return folder / (std::string(name) + ending);
    }
  return {};
}

fs::path training_table(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? table_in(path, {"train"}) : path;
}

fs::path test_table(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? table_in(path, {"test", "val", "valid"}) : fs::path();
}

std::vector<size_t> all_rows(const CsvTable& table) {
  std::vector<size_t> rows(table.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

/// The rows of a split, if one table holds both: chosen by their content, so that their order does not
/// matter. `label`: a tenth of each class is for testing; none: a tenth of all rows.
std::vector<size_t> rows_of(const CsvTable& table, Split split, std::optional<size_t> label) {
  std::vector<std::string> names;
  std::vector<int64_t> labels;
  std::vector<std::string> classes;
  for (const auto& row : table.rows) {
    names.push_back(join(row, "\n"));
    const std::string name = label ? row[*label] : "";
    auto found = std::ranges::find(classes, name);
    if (found == classes.end()) found = classes.insert(found, name);
    labels.push_back(found - classes.begin());
  }
  const std::vector<bool> tested = held_out(names, labels);
  std::vector<size_t> rows;
  for (size_t i = 0; i < tested.size(); ++i)
    if (tested[i] == (split == Split::test)) rows.push_back(i);
  return rows;
}

/// The table of a split, and the files of this split and of the training examples.
struct Tables {
  fs::path here, training;
  bool own_test = false;  // the split has a table of its own
  CsvTable table;
  std::vector<size_t> rows_here(Split split, std::optional<size_t> label) const {
    return own_test ? all_rows(table) : rows_of(table, split, label);
  }
};

void need_examples(const std::vector<size_t>& rows, const fs::path& path) {
  if (rows.empty())
    throw Error(ErrorCode::value, "there are no test examples: the table is too small to keep any",
                path.string(), "Put train.csv and test.csv into a folder");
}

size_t class_column(const CsvTable& table, const DataOptions& options, const fs::path& path) {
  const std::vector<size_t> columns = target_columns(table, options.target, path.string());
  if (columns.size() == 1) return columns.front();
  throw Error(ErrorCode::usage, fmt::format("{} columns cannot be one class", columns.size()), "--target",
              "Give one column, or --task regression");
}

std::shared_ptr<const Dataset> open_numbers(const Tables& tables, Split split, const DataOptions& options) {
  ExampleSpec spec;
  if (options.like) {
    spec = *options.like;
  } else {
    const CsvTable learned = tables.here == tables.training ? tables.table : read_csv(tables.training);
    spec = learn_number_table(
        learned, tables.own_test ? all_rows(learned) : rows_of(learned, Split::train, {}),
        target_columns(learned, options.target, tables.training.string()), tables.training.string());
  }
  const std::string name = tables.here.string();
  const std::vector<size_t> rows = tables.rows_here(split, {});
  need_examples(rows, tables.here);
  std::vector<double> numbers =
      numbers_in(tables.table, rows, columns_named(tables.table, spec.class_names, name), name);
  ExampleSpec inputs = spec;
  inputs.targets.clear();
  return std::make_shared<NumbersDataset>(
      std::make_shared<RowsDataset>(encode_rows(tables.table, rows, spec, name), std::move(inputs)),
      std::move(numbers), spec.class_names, spec.targets);
}

}  // namespace

bool has_table(const fs::path& folder) { return !training_table(folder).empty(); }

std::shared_ptr<const Dataset> open_csv(const fs::path& path, Split split, const DataOptions& options) {
  refuse_image_size(options);
  const fs::path training = training_table(path), test = test_table(path);
  const bool own_test = !test.empty();
  const fs::path& here = own_test && split == Split::test ? test : training;
  const CsvTable table = read_csv(here);
  if (options.like && options.like->columns.empty())
    throw Error(ErrorCode::shape, "the model was trained on images, and this is a table", here.string());
  if (options.numbers) return open_numbers({here, training, own_test, table}, split, options);
  const size_t label = class_column(table, options, here);
  ExampleSpec spec;
  if (options.like) {
    spec = *options.like;
  } else {
    const CsvTable learned = here == training ? table : read_csv(training);
    const size_t learned_label = class_column(learned, options, training);
    spec = learn_table(learned, own_test ? all_rows(learned) : rows_of(learned, Split::train, learned_label),
                       learned_label, training.string());
  }
  const std::vector<size_t> rows = own_test ? all_rows(table) : rows_of(table, split, label);
  need_examples(rows, here);
  return std::make_shared<TableDataset>(table, rows, std::move(spec), label, here.string());
}

}  // namespace athanor
