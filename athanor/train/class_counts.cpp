#include "athanor/train/class_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace athanor {

namespace {

constexpr int64_t first_few = 5;

double share_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

void ClassCounts::add(const HostArray& scores, const HostArray& targets) {
  const auto all = scores.as<float>();
  const auto labels = targets.as<int64_t>();
  const auto width = static_cast<size_t>(scores.shape[1]);
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0) continue;
    const auto row = all.subspan(n * width, width);
    add(labels[n], std::ranges::max_element(row) - row.begin());
    const float own = row[static_cast<size_t>(labels[n])];
    if (std::ranges::count_if(row, [&](float score) { return score > own; }) < first_few) ++in_top5_;
  }
  scored_ = true;
}

void keep_examples(TestResult& result, const HostArray& scores, const HostArray& inputs,
                   const HostArray& targets) {
  constexpr size_t most = 12;
  const auto all = scores.as<float>();
  const auto labels = targets.as<int64_t>();
  const auto width = static_cast<size_t>(scores.shape[1]);
  const size_t bytes = inputs.bytes.size() / labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0) continue;
    const auto row = all.subspan(n * width, width);
    const auto best = std::ranges::max_element(row);
    TestExample example{.right = labels[n], .answer = best - row.begin(), .share = 0, .inputs = {}};
    auto& kept = example.right == example.answer ? result.first_right : result.mistakes;
    if (&kept == &result.first_right && kept.size() == most) continue;
    double sum = 0;
    for (const float score : row) sum += std::exp(static_cast<double>(score) - *best);
    example.share = 1 / sum;
    if (kept.size() == most && example.share <= kept.back().share) continue;
    example.inputs = HostArray(inputs.dtype, inputs.shape.erase(0));
    std::copy_n(inputs.bytes.begin() + static_cast<std::ptrdiff_t>(n * bytes), bytes,
                example.inputs.bytes.begin());
    if (kept.size() == most) kept.pop_back();
    const auto place =
        &kept == &result.first_right ? kept.end() : std::ranges::find_if(kept, [&](const TestExample& other) {
          return other.share < example.share;
        });
    kept.insert(place, std::move(example));
  }
}

void ClassCounts::add(int64_t right, int64_t answer, int64_t count) {
  pairs_[{right, answer}] += count;
  right_[right] += count;
  answers_[answer] += count;
  total_ += count;
}

int64_t ClassCounts::count(int64_t right, int64_t answer) const {
  const auto found = pairs_.find({right, answer});
  return found == pairs_.end() ? 0 : found->second;
}

int64_t ClassCounts::sum_of(const std::map<int64_t, int64_t>& sums, int64_t label) {
  const auto found = sums.find(label);
  return found == sums.end() ? 0 : found->second;
}

double ClassCounts::accuracy() const {
  int64_t right = 0;
  for (const auto& [pair, count] : pairs_)
    if (pair.first == pair.second) right += count;
  return share_of(right, total_);
}

std::optional<double> ClassCounts::top5() const {
  if (classes_ <= first_few || !scored_) return std::nullopt;
  return share_of(in_top5_, total_);
}

double ClassCounts::precision(int64_t label) const {
  return share_of(count(label, label), answers_of(label));
}
double ClassCounts::recall(int64_t label) const { return share_of(count(label, label), examples_of(label)); }
double ClassCounts::f1(int64_t label) const {
  return share_of(2 * count(label, label), answers_of(label) + examples_of(label));
}

double ClassCounts::macro_f1() const {
  double sum = 0;
  int64_t occur = 0;
  for (int64_t label = 0; label < classes_; ++label) {
    if (answers_of(label) + examples_of(label) == 0) continue;
    sum += f1(label);
    ++occur;
  }
  return occur > 0 ? sum / static_cast<double>(occur) : 0;
}

std::vector<Measure> class_measures(const ClassCounts& counts) {
  const double f1 = counts.macro_f1();
  std::vector<Measure> measures{{"f1", f1, fmt::format("F1 {:.1f} %", 100 * f1)}};
  if (const auto top5 = counts.top5())
    measures.push_back({"top5_accuracy", *top5, fmt::format("top-5 {:.1f} %", 100 * *top5)});
  return measures;
}

std::optional<double> ClassCounts::iou(int64_t label) const {
  const int64_t both = count(label, label), either = examples_of(label) + answers_of(label) - both;
  if (either == 0) return std::nullopt;
  return share_of(both, either);
}

double ClassCounts::mean_iou() const {
  double sum = 0;
  int64_t there = 0;
  for (int64_t label = 0; label < classes_; ++label)
    if (const auto one = iou(label)) sum += *one, ++there;
  return there > 0 ? sum / static_cast<double>(there) : 0;
}

std::string iou_of_classes(const ClassCounts& counts, const std::vector<std::string>& names) {
  constexpr int64_t most_shown = 12;
  std::string text;
  for (int64_t label = 0; label < std::min(counts.classes(), most_shown); ++label)
    if (const auto iou = counts.iou(label))
      text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", class_name(names, label), 100 * *iou);
  return text + (counts.classes() > most_shown ? ", ..." : "");
}

TestMeasures by_name(const std::vector<Measure>& measures) {
  TestMeasures named;
  for (const Measure& measure : measures) named[measure.name] = measure.value;
  return named;
}

std::string class_name(const std::vector<std::string>& names, int64_t label) {
  const auto at = static_cast<size_t>(label);
  return at < names.size() ? names[at] : fmt::format("class {}", label);
}

std::string worst_mistake(const ClassCounts& counts, const std::vector<std::string>& names) {
  std::pair<int64_t, int64_t> worst{0, 0};
  int64_t most = 0;
  for (const auto& [pair, count] : counts.pairs())
    if (pair.first != pair.second && count > most) worst = pair, most = count;
  if (most == 0) return {};
  return fmt::format("{} is taken for {} most often ({} of {})", class_name(names, worst.first),
                     class_name(names, worst.second), grouped(most),
                     grouped(counts.examples_of(worst.first)));
}

nlohmann::ordered_json to_json(const ClassCounts& counts, const std::vector<std::string>& names) {
  auto classes = nlohmann::ordered_json::array(), pairs = nlohmann::ordered_json::array();
  for (int64_t label = 0; label < counts.classes(); ++label)
    classes.push_back({{"name", class_name(names, label)},
                       {"examples", counts.examples_of(label)},
                       {"precision", counts.precision(label)},
                       {"recall", counts.recall(label)},
                       {"f1", counts.f1(label)},
                       {"iou", counts.iou(label).value_or(0)}});
  for (const auto& [pair, count] : counts.pairs()) pairs.push_back({pair.first, pair.second, count});
  return {{"accuracy", counts.accuracy()},
          {"f1", counts.macro_f1()},
          {"classes", classes},
          {"right_answer_count", pairs}};
}

std::pair<ClassCounts, std::vector<std::string>> class_counts_from_json(const nlohmann::json& json) {
  std::vector<std::string> names;
  for (const auto& one : json.at("classes")) names.push_back(one.at("name"));
  ClassCounts counts(std::ssize(names));
  for (const auto& pair : json.at("right_answer_count")) counts.add(pair.at(0), pair.at(1), pair.at(2));
  return {std::move(counts), std::move(names)};
}

}  // namespace athanor
