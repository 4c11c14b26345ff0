// Arrays of inputs and of numbers to predict.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/data/array_dataset.h"
#include "athanor/data/numbers.h"
#include "athanor/data/openers.h"

namespace athanor {
namespace {

constexpr const char* number_arrays_hint =
    "Inputs are images as for classification (u8), or numbers [N, F]; targets are numbers, [N] or [N, K]";

struct Targets {
  std::vector<double> numbers;
  size_t columns = 1;
};

Targets targets_in(const FileArray& file) {
  const Shape& shape = file.array.shape;
  if (shape.rank() < 1 || shape.rank() > 2 || shape.size() == 0)
    throw Error(ErrorCode::shape, fmt::format("targets of shape {}", to_string(shape)), file.path.string(),
                number_arrays_hint);
  Targets targets{to_doubles(file.array), shape.rank() == 2 ? static_cast<size_t>(shape[1]) : 1};
  if (!std::ranges::all_of(targets.numbers, [](double number) { return std::isfinite(number); }))
    throw Error(ErrorCode::value, "a target is NaN or infinite", file.path.string(), "Take its example out");
  return targets;
}

std::shared_ptr<const Dataset> dataset_of_rows(const FileArray& inputs, ExampleSpec spec) {
  HostArray rows = encode_number_rows(inputs.array, spec, inputs.path.string());
  spec.targets.clear();
  return std::make_shared<RowsDataset>(std::move(rows), std::move(spec));
}

ExampleSpec spec_of_rows(const FileArray& inputs) {
  return learn_number_rows(inputs.array, inputs.path.string());
}

std::shared_ptr<const Dataset> dataset_of_pictures(FileArray inputs, const Normalization& normalization) {
  HostArray labels(DType::i64, {inputs.array.shape.rank() > 0 ? inputs.array.shape[0] : 0});
  try {
    return std::make_shared<ArrayDataset>(
        std::move(inputs.array), labels,
        ArrayDatasetOptions{.class_names = {}, .classes = 1, .normalization = normalization});
  } catch (const Error& error) {
    throw Error(error.code(), error.problem(), inputs.path.string(), number_arrays_hint);
  }
}

}  // namespace

std::shared_ptr<const Dataset> open_number_arrays(const ReadArray& read, Split split,
                                                  const DataOptions& options) {
  refuse_image_size(options);
  if (!options.target.empty())
    throw Error(ErrorCode::usage, "it names a column of a table, and these are arrays", "--target",
                "Leave it out");
  FileArray inputs = read(split, false);
  const FileArray file = read(split, true);
  Targets targets = targets_in(file);
  std::vector<TargetScale> scales;
  std::vector<std::string> names;
  if (options.like) {
    scales = options.like->targets, names = options.like->class_names;
  } else {
    const Targets learned = targets_in(read(Split::train, true));
    scales = target_scales(learned.numbers, learned.columns);
    for (size_t i = 0; i < learned.columns; ++i)
      names.push_back(learned.columns == 1 ? "target" : fmt::format("target {}", i));
  }
  if (targets.columns != names.size())
    throw Error(
        ErrorCode::shape,
        fmt::format("{} targets for each example, where training had {}", targets.columns, names.size()),
        file.path.string());
  std::shared_ptr<const Dataset> examples;
  if (inputs.array.shape.rank() == 2)
    examples =
        dataset_of_rows(inputs, options.like ? *options.like : spec_of_rows(read(Split::train, false)));
  else
    examples = dataset_of_pictures(
        std::move(inputs),
        options.like ? options.like->normalization : measure_normalization(read(Split::train, false).array));
  try {
    return std::make_shared<NumbersDataset>(std::move(examples), std::move(targets.numbers), std::move(names),
                                            std::move(scales));
  } catch (const Error& error) {
    throw error.at(file.path.string());
  }
}

}  // namespace athanor
