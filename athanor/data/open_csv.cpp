#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/held_out.h"
#include "athanor/data/openers.h"
#include "athanor/data/table.h"
#include "athanor/formats/csv.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// train.csv of a folder, test.csv, ...; an empty path where there is none.
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

/// Those of a split, where one table holds both: chosen by what they contain, so that an order means nothing.
std::vector<size_t> rows_of(const CsvTable& table, Split split, size_t label) {
  std::vector<std::string> names;
  std::vector<int64_t> labels;
  std::vector<std::string> classes;
  for (const auto& row : table.rows) {
    names.push_back(join(row, "\n"));
    auto found = std::ranges::find(classes, row[label]);
    if (found == classes.end()) found = classes.insert(found, row[label]);
    labels.push_back(found - classes.begin());
  }
  const std::vector<bool> tested = held_out(names, labels);
  std::vector<size_t> rows;
  for (size_t i = 0; i < tested.size(); ++i)
    if (tested[i] == (split == Split::test)) rows.push_back(i);
  return rows;
}

}  // namespace

bool has_table(const fs::path& folder) { return !training_table(folder).empty(); }

std::shared_ptr<const Dataset> open_csv(const fs::path& path, Split split, const DataOptions& options) {
  refuse_image_size(options);
  const fs::path training = training_table(path), test = test_table(path);
  const bool own_test = !test.empty();
  const fs::path& here = own_test && split == Split::test ? test : training;
  const CsvTable table = read_csv(here);
  const size_t label = label_column(table);
  ExampleSpec spec;
  if (options.like && options.like->columns.empty())
    throw Error(ErrorCode::shape, "the model was trained on pictures, and this is a table", here.string());
  if (options.like) {
    spec = *options.like;
  } else {
    const CsvTable learned = here == training ? table : read_csv(training);
    const size_t learned_label = label_column(learned);
    spec = learn_table(learned, own_test ? all_rows(learned) : rows_of(learned, Split::train, learned_label),
                       learned_label, training.string());
  }
  const std::vector<size_t> rows = own_test ? all_rows(table) : rows_of(table, split, label);
  if (rows.empty())
    throw Error(ErrorCode::value, "there are no test examples: the table is too small to keep any",
                here.string(), "Put train.csv and test.csv into a folder");
  return std::make_shared<TableDataset>(table, rows, std::move(spec), label, here.string());
}

}  // namespace athanor
