// Tables of numbers and categories as examples.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"
#include "athanor/formats/csv.h"

namespace athanor {

/// Rows as inputs [1, 1, F] by the columns' encodings (see ColumnEncoding), with the class in one column.
class TableDataset final : public Dataset {
 public:
  /// `rows` of `table`, with the classes in column `label`. Throws what encode_rows() throws, and
  /// Error(value) for a class that is not known.
  TableDataset(const CsvTable& table, const std::vector<size_t>& rows, ExampleSpec spec, size_t label,
               const std::string& name);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* input_out, int64_t& label_out) const override;
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

 private:
  ExampleSpec spec_;
  HostArray inputs_;  // f32 [N, 1, 1, F]
  std::vector<int64_t> labels_;
};

/// The inputs of these rows, f32 [rows, 1, 1, F], encoded as `spec` says; columns are found by their names,
/// other columns are ignored. `name` is the table's for errors. Throws Error(value) for a column that is
/// missing and for a field that should be a number.
HostArray encode_rows(const CsvTable& table, const std::vector<size_t>& rows, const ExampleSpec& spec,
                      const std::string& name);

/// How the columns of these rows are encoded, and the classes of column `label`. Throws Error(value).
ExampleSpec learn_table(const CsvTable& table, const std::vector<size_t>& rows, size_t label,
                        const std::string& name);

/// The same with numbers in columns `targets`. Throws Error(value).
ExampleSpec learn_number_table(const CsvTable& table, const std::vector<size_t>& rows,
                               const std::vector<size_t>& targets, const std::string& name);

/// The numbers [rows, columns] in these columns. Throws Error(value) for a field that is not a number.
std::vector<double> numbers_in(const CsvTable& table, const std::vector<size_t>& rows,
                               const std::vector<size_t>& columns, const std::string& name);

/// "", "NA", "nan", "?" and the like.
bool is_missing(const std::string& field);

/// The column that holds the class: called label, class, target or y, or the last.
size_t label_column(const CsvTable& table);
/// The columns of these names. Throws Error(usage) for a name that no column has.
std::vector<size_t> columns_named(const CsvTable& table, const std::vector<std::string>& names,
                                  const std::string& place);
/// The columns of these names, with commas between; {label_column()} for "".
std::vector<size_t> target_columns(const CsvTable& table, const std::string& names, const std::string& place);

}  // namespace athanor
