// How the results of a task are counted and worded.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "athanor/train/metrics.h"

namespace athanor {

/// The quality of each target's answer, from 0 (bad) to 1 (perfect), whose mean measures a model beside its
/// loss. 1 for a right answer and 0 for a wrong one; in regression 1 minus the squared error divided by the
/// variance, whose mean is R2.
struct Quality {
  std::string field = "accuracy", title = "Accuracy";  // in files; in charts
};

/// What is counted: losses are means over these.
struct Unit {
  std::string one = "image", many = "images";
  std::string rate = "img/s";                    // of a progress bar
  std::string rate_field = "images_per_second";  // of summary.json
  std::string rated = "images";                  // what a rate counts
  int64_t in_example = 1;                        // how many of them are in one example of a batch
};

/// A number that says how good a model is.
struct Measure {
  std::string name;  // as in summary.json, where "test_" precedes it: "accuracy", "perplexity"
  double value = 0;
  std::string text;  // "accuracy 91.2 %"
};

/// Measures that only a test has, by name: {"f1", 0.91}.
using TestMeasures = std::map<std::string, double>;

/// A result in words: "91.2 %" and " of 10,000 test images are right".
struct ResultText {
  std::string figure, rest;
};

/// "60,000"
std::string grouped(int64_t number);

class Scoring {
 public:
  virtual ~Scoring() = default;
  virtual Unit unit() const = 0;
  /// Measures beside the loss, the most important first.
  virtual std::vector<Measure> measures(double mean_loss, double accuracy) const = 0;
  /// The same for a progress bar: "acc 91.2 %".
  virtual std::string bar(double mean_loss, double accuracy) const = 0;
  virtual ResultText in_words(double mean_loss, double accuracy, int64_t count) const = 0;
  /// The score of a test; larger is better.
  virtual double score(double mean_loss, double accuracy, const TestMeasures& more) const = 0;
  /// The most important measure of a test: "accuracy 91.2 %".
  virtual std::string best(double mean_loss, double accuracy, const TestMeasures& /*more*/) const {
    return measures(mean_loss, accuracy).front().text;
  }
  virtual Quality quality() const { return {}; }
  /// The command, without "athanor", that uses the model: "predict IMAGE".
  virtual std::string use() const = 0;
};

/// The unit of examples that are not images, such as rows of a table.
Unit examples_unit();

/// Classification: accuracy.
class ClassScoring final : public Scoring {
 public:
  explicit ClassScoring(bool pictures = true) : pictures_(pictures) {}
  Unit unit() const override { return pictures_ ? Unit{} : examples_unit(); }
  std::vector<Measure> measures(double mean_loss, double accuracy) const override;
  std::string bar(double mean_loss, double accuracy) const override;
  ResultText in_words(double mean_loss, double accuracy, int64_t count) const override;
  double score(double /*mean_loss*/, double accuracy, const TestMeasures& /*more*/) const override {
    return accuracy;
  }
  std::string use() const override { return pictures_ ? "predict IMAGE" : "predict FILE.csv"; }

 private:
  bool pictures_;
};

}  // namespace athanor
