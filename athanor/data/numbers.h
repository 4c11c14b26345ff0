// Datasets whose targets are numbers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"

namespace athanor {

/// Mean and standard deviation of each column of `numbers` [rows, columns]; a constant column gets standard
/// deviation 1.
std::vector<TargetScale> target_scales(const std::vector<double>& numbers, size_t columns);

/// How rows of numbers [N, F] become inputs: each column scaled, called x0, x1, ... Throws Error(value) for
/// NaN and infinity, naming `place`.
ExampleSpec learn_number_rows(const HostArray& rows, const std::string& place);
/// The rows in this encoding, f32 [N, 1, 1, F]. Throws Error(shape) for another number of columns.
HostArray encode_number_rows(const HostArray& rows, const ExampleSpec& spec, const std::string& place);

/// Rows of floats as they are, f32[N, ...], with label 0.
class RowsDataset final : public Dataset {
 public:
  RowsDataset(HostArray rows, ExampleSpec spec) : rows_(std::move(rows)), spec_(std::move(spec)) {}
  int64_t size() const override { return rows_.shape[0]; }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* out, int64_t& label_out) const override;
  int64_t label(int64_t /*index*/) const override { return 0; }

 private:
  HostArray rows_;
  ExampleSpec spec_;
};

/// The inputs of another dataset with numbers as targets.
class NumbersDataset final : public Dataset {
 public:
  /// `numbers`: [inputs->size(), columns], unscaled. `names`: one for each column. Throws Error(shape) if the
  /// counts differ.
  NumbersDataset(std::shared_ptr<const Dataset> inputs, std::vector<double> numbers,
                 std::vector<std::string> names, std::vector<TargetScale> scales);
  int64_t size() const override { return inputs_->size(); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* out, int64_t& label_out) const override {
    inputs_->read(index, out, label_out);
  }
  HostArray picture(int64_t index, int64_t& label_out) const override {
    return inputs_->picture(index, label_out);
  }
  void numbers(int64_t index, float* out) const override;
  int64_t label(int64_t /*index*/) const override { return 0; }

 private:
  std::shared_ptr<const Dataset> inputs_;
  std::vector<double> numbers_;
  ExampleSpec spec_;
};

}  // namespace athanor
