// Einstein summation.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

// A factor and the label of each of its axes. The axes under "..." have digits as labels; '0' is the last.
struct Factor {
  Tensor value;
  std::string labels;
};

using Extents = std::map<char, int64_t>;

[[noreturn]] void fail(const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorCode::shape, what, {}, hint);
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

// The labels of one term, with its "..." replaced by `rank` digits.
std::string expanded(const std::string& term, int rank) {
  std::string labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      if (rank < 0) fail(fmt::format("'{}' has more than one '...'", term));
      for (int d = rank - 1; d >= 0; --d) labels += static_cast<char>('0' + d);
      rank = -1;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels += term[i];
    } else {
      fail(fmt::format("'{}' in '{}' is not a letter", term[i], term), "Write for example \"bij,bjk->bik\"");
    }
  }
  return labels;
}

bool contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

std::vector<std::string> split_terms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

// Replaces axes i < j of the same extent by their diagonal, which becomes the last axis.
Tensor diagonal(const Tensor& x, int i, int j) {
  Ints order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != i && axis != j) order.push_back(axis);
  order.push_back(i), order.push_back(j);
  const int64_t n = x.size(i);
  Tensor y = permute(x, order);
  Ints lead(y.shape().begin(), y.shape().end() - 2), low(lead.size() + 1, 0), high = low;
  high.back() = n;
  // With rows of n + 1 elements, the diagonal is the first column.
  Ints flat = lead, skewed = lead;
  flat.push_back(n * n);
  skewed.push_back(n), skewed.push_back(n + 1);
  y = reshape(pad(reshape(y, flat), low, high), skewed);
  return slice(y, {Index::ellipsis, 0});
}

Factor without_repeats(Factor f) {
  for (size_t j = 1; j < f.labels.size(); ++j) {
    const size_t i = f.labels.find(f.labels[j]);
    if (i == j) continue;
    const char label = f.labels[j];
    f.value = diagonal(f.value, static_cast<int>(i), static_cast<int>(j));
    f.labels.erase(j, 1);
    f.labels.erase(i, 1);
    f.labels += label;
    j = 0;
  }
  return f;
}

// Drops axes under "..." that have extent 1 here and are larger in other factors.
Factor without_singles(Factor f, const Extents& extents) {
  Ints dropped;
  std::string kept;
  for (size_t i = 0; i < f.labels.size(); ++i) {
    const char label = f.labels[i];
    if (std::isdigit(static_cast<unsigned char>(label)) && f.value.size(static_cast<int>(i)) == 1 &&
        extents.at(label) != 1) {
      dropped.push_back(static_cast<int64_t>(i));
    } else {
      kept += label;
    }
  }
  if (dropped.empty()) return f;
  return {squeeze(f.value, dropped), kept};
}

Factor summed_to(const Factor& f, const std::string& wanted) {
  Ints axes;
  std::string kept;
  for (size_t i = 0; i < f.labels.size(); ++i) {
    if (contains(wanted, f.labels[i])) {
      kept += f.labels[i];
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return {axes.empty() ? f.value : cast(sum(f.value, Axes(axes)), f.value.dtype()), kept};
}

// The product of two factors, summed over the labels that are not wanted.
Factor contracted(const Factor& left, const Factor& right, const std::string& wanted) {
  const Factor a = summed_to(left, wanted + right.labels), b = summed_to(right, wanted + left.labels);
  Ints contract_a, contract_b, batch_a, batch_b;
  std::string batch, free;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const size_t j = b.labels.find(a.labels[i]);
    if (j == std::string::npos) {
      free += a.labels[i];
    } else if (contains(wanted, a.labels[i])) {
      batch += a.labels[i];
      batch_a.push_back(static_cast<int64_t>(i)), batch_b.push_back(static_cast<int64_t>(j));
    } else {
      contract_a.push_back(static_cast<int64_t>(i)), contract_b.push_back(static_cast<int64_t>(j));
    }
  }
  for (char label : b.labels)
    if (!contains(a.labels, label)) free += label;
  return {dot_general(a.value, b.value, contract_a, contract_b, batch_a, batch_b), batch + free};
}

// The labels that a contraction of two factors must keep: the output's and those of all other factors.
std::string labels_beside(const std::vector<Factor>& factors, size_t i, size_t j, const std::string& output) {
  std::string wanted = output;
  for (size_t k = 0; k < factors.size(); ++k)
    if (k != i && k != j) wanted += factors[k].labels;
  return wanted;
}

// An order of contractions, and its cost. The factors' labels and extents determine both.
struct Path {
  double multiplications = 0;
  std::vector<std::pair<size_t, size_t>> pairs;  // the result replaces the first; the second is erased
};

// Tries every order, or only the cheapest pair at each step.
Path cheapest_path(const std::vector<std::string>& terms, const std::string& output, const Extents& extents,
                   bool all_orders) {
  if (terms.size() < 2) return {};
  struct Step {
    size_t first, second;
    std::string result;
    double cost;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = i + 1; j < terms.size(); ++j) {
      std::string wanted = output;
      for (size_t k = 0; k < terms.size(); ++k)
        if (k != i && k != j) wanted += terms[k];
      Step step{i, j, {}, 1};
      for (const auto& [label, extent] : extents) {
        if (!contains(terms[i], label) && !contains(terms[j], label)) continue;
        // Axes that only one operand has, and that the result does not need, are summed first.
        const bool both = contains(terms[i], label) && contains(terms[j], label);
        if (both || contains(wanted, label)) step.cost *= static_cast<double>(extent);
        if (contains(wanted, label)) step.result += label;
      }
      steps.push_back(std::move(step));
    }
  if (!all_orders) {
    const auto best = std::ranges::min_element(steps, {}, &Step::cost);
    steps = {*best};
  }
  std::optional<Path> cheapest;
  for (const Step& step : steps) {
    if (cheapest && step.cost >= cheapest->multiplications) continue;
    std::vector<std::string> rest = terms;
    rest[step.first] = step.result;
    rest.erase(rest.begin() + static_cast<int64_t>(step.second));
    Path path = cheapest_path(rest, output, extents, all_orders);
    path.multiplications += step.cost;
    path.pairs.insert(path.pairs.begin(), {step.first, step.second});
    if (!cheapest || path.multiplications < cheapest->multiplications) cheapest = std::move(path);
  }
  return *cheapest;
}

Extents extents_of(const std::vector<Factor>& factors) {
  Extents extents;
  for (const Factor& f : factors)
    for (size_t i = 0; i < f.labels.size(); ++i) {
      const char label = f.labels[i];
      const int64_t extent = f.value.size(static_cast<int>(i));
      const auto [known, added] = extents.emplace(label, extent);
      if (added || known->second == extent) continue;
      if (!std::isdigit(static_cast<unsigned char>(label)) || (extent != 1 && known->second != 1))
        fail(fmt::format("index '{}' has extents {} and {}",
                         std::isdigit(static_cast<unsigned char>(label)) ? "..." : std::string(1, label),
                         known->second, extent));
      known->second = std::max(known->second, extent);
    }
  return extents;
}

// The output that NumPy implies without "->": the axes under "...", then the labels that appear once, in
// alphabetical order.
std::string implied_output(const std::vector<Factor>& factors) {
  std::map<char, int> counts;
  for (const Factor& f : factors)
    for (char label : f.labels) ++counts[label];
  std::string digits, letters;
  for (const auto& [label, count] : counts) {
    if (std::isdigit(static_cast<unsigned char>(label))) {
      digits.insert(digits.begin(), label);
    } else if (count == 1) {
      letters += label;
    }
  }
  return digits + letters;
}

}  // namespace

Tensor einsum(const std::string& subscripts, const TensorList& operands) {
  const SourceScope scope(operands.where());
  need_all("einsum", operands.tensors());
  try {
    const std::string text = without_spaces(subscripts);
    const size_t arrow = text.find("->");
    const auto terms = split_terms(text.substr(0, arrow));
    const auto& values = operands.tensors();
    if (terms.size() != values.size())
      fail(fmt::format("{} terms for {} tensors", terms.size(), values.size()));
    std::vector<Factor> factors;
    int ellipsis = 0;
    DType dtype = DType::b8;
    for (size_t i = 0; i < values.size(); ++i) {
      const int open = values[i].rank() - static_cast<int>(expanded(terms[i], 0).size());
      const bool dots = terms[i].find("...") != std::string::npos;
      if (open < 0 || (!dots && open > 0))
        fail(fmt::format("'{}' does not fit a tensor {}", terms[i], to_string(values[i].type())),
             "Give one letter an axis");
      factors.push_back({values[i], expanded(terms[i], open)});
      ellipsis = std::max(ellipsis, open);
      dtype = i == 0 ? values[i].dtype() : promote(dtype, values[i].dtype());
    }
    const Extents extents = extents_of(factors);
    const std::string output =
        arrow == std::string::npos ? implied_output(factors) : expanded(text.substr(arrow + 2), ellipsis);
    for (size_t i = 0; i < output.size(); ++i) {
      if (!extents.contains(output[i]))
        fail(fmt::format("index '{}' of the result is in no term", output[i]));
      if (output.find(output[i]) != i) fail(fmt::format("index '{}' is twice in the result", output[i]));
    }
    for (Factor& f : factors) {
      f = without_repeats(without_singles(f, extents));
      f.value = cast(f.value, dtype);
    }
    std::vector<std::string> labels;
    for (const Factor& f : factors) labels.push_back(f.labels);
    constexpr size_t most_to_try = 6;  // 2,700 orders
    for (const auto& [first, second] :
         cheapest_path(labels, output, extents, factors.size() <= most_to_try).pairs) {
      factors[first] =
          contracted(factors[first], factors[second], labels_beside(factors, first, second, output));
      factors.erase(factors.begin() + static_cast<int64_t>(second));
    }
    const Factor result = summed_to(factors[0], output);
    Ints order;
    for (char label : output) order.push_back(static_cast<int64_t>(result.labels.find(label)));
    return permute(result.value, order);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), fmt::format("einsum(\"{}\"): {}", subscripts, error.problem()),
                to_string(*SourceScope::current()), error.hint());
  }
}

}  // namespace athanor
