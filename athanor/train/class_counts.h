// How often a model confuses which classes.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/train/metrics.h"
#include "athanor/train/scoring.h"

namespace athanor {

/// A confusion matrix, and measures that follow from it. Only pairs that occur take memory, so there may be
/// thousands of classes.
class ClassCounts {
 public:
  explicit ClassCounts(int64_t classes = 0) : classes_(classes) {}

  /// Adds the rows of scores f32[N, C] (larger is likelier) with the right classes i64[N]; targets below 0
  /// do not count. The answer is the first of the largest scores. A right class is among the first five if
  /// at most four scores are larger than its own.
  void add(const HostArray& scores, const HostArray& targets);
  void add(int64_t right, int64_t answer, int64_t count = 1);

  int64_t classes() const { return classes_; }
  int64_t total() const { return total_; }
  /// Examples of class `right` for which the model gave `answer`.
  int64_t count(int64_t right, int64_t answer) const;
  /// The pairs that occur: {right, answer} -> count.
  const std::map<std::pair<int64_t, int64_t>, int64_t>& pairs() const { return pairs_; }
  int64_t examples_of(int64_t label) const { return sum_of(right_, label); }
  int64_t answers_of(int64_t label) const { return sum_of(answers_, label); }

  double accuracy() const;
  /// The share of examples whose class is among the five likeliest. None for five classes or fewer.
  std::optional<double> top5() const;
  /// precision: the share of the answers `label` that are right. recall: the share of the examples of `label`
  /// that are found. f1: their harmonic mean. 0 if there are none.
  double precision(int64_t label) const;
  double recall(int64_t label) const;
  double f1(int64_t label) const;
  /// Intersection over union: of the pixels that are `label` or predicted as it, the share that is both. None
  /// if there are none.
  std::optional<double> iou(int64_t label) const;
  /// The mean of iou() over the classes that have one.
  double mean_iou() const;
  /// The mean of f1() over the classes that occur as an example or as an answer (macro F1, as in
  /// scikit-learn).
  double macro_f1() const;

  bool operator==(const ClassCounts&) const = default;

 private:
  static int64_t sum_of(const std::map<int64_t, int64_t>& sums, int64_t label);
  int64_t classes_, total_ = 0, in_top5_ = 0;
  bool scored_ = false;  // in_top5_ is known
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs_;
  std::map<int64_t, int64_t> right_, answers_;
};

/// An example that a model was tested on.
struct TestExample {
  int64_t right = 0, answer = 0;
  double share = 0;  // the answer's probability
  HostArray inputs;  // as given to the model, without the batch's axis
};

/// An image of a test, and the class of each of its pixels.
struct PixelExample {
  HostArray inputs;  // as in TestExample
  std::vector<int64_t> right, answer;
};

/// The results of a test.
struct TestResult : MetricsSum {
  std::vector<Measure> measures = {};             // that only a test has: F1, mean IoU, RMSE
  std::optional<ClassCounts> classes = {};        // if the task has classes
  std::vector<TestExample> mistakes = {};         // mistakes, the most confident first
  std::vector<TestExample> first_right = {};      // the first right answers
  std::vector<PixelExample> pixel_examples = {};  // the first ones, if pixels have classes
};

/// Keeps those examples of a tested batch that `mistakes` and `first_right` show.
void keep_examples(TestResult& result, const HostArray& scores, const HostArray& inputs,
                   const HostArray& targets);

/// The values of `measures`, by name.
TestMeasures by_name(const std::vector<Measure>& measures);

/// "sky 97.1 %, sea 80.2 %": the IoU of each class that has one, of the first twelve.
std::string iou_of_classes(const ClassCounts& counts, const std::vector<std::string>& names);

/// "F1 91.2 %" and "top-5 99.8 %".
std::vector<Measure> class_measures(const ClassCounts& counts);

/// "Shirt", or "class 3" if there are no names.
std::string class_name(const std::vector<std::string>& names, int64_t label);

/// The most frequent mistake: "Shirt is taken for T-shirt most often (112 of 1,000)". "" if there are no
/// mistakes.
std::string worst_mistake(const ClassCounts& counts, const std::vector<std::string>& names);

/// confusion.json: each class with its name, examples, precision, recall and F1; and the pairs that occur, as
/// [right, answer, count].
nlohmann::ordered_json to_json(const ClassCounts& counts, const std::vector<std::string>& names);
/// The inverse. Throws nlohmann's exceptions for another form.
std::pair<ClassCounts, std::vector<std::string>> class_counts_from_json(const nlohmann::json& json);

}  // namespace athanor
