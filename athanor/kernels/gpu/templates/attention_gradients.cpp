// The gradients of attention by q, k and v in one request. As two kernels they take 7 products of matrices,
// 3 for q and 4 for k and v, because both compute the scores and their gradient. One kernel takes 5. Its
// group has a part of a head's keys and goes through all queries for each chunk of them. It adds to its own
// copy of q's gradient, in scratch memory, so that the order of the sum is always the same; a second launch
// adds the copies. The copy is read and written for each chunk: a byte for half as many floating-point
// operations that are saved as the chunk has keys.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/attention.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {
namespace {

using Kind = AttentionKind;

constexpr int64_t most_scratch = int64_t{256} << 20;
// A compute unit holds one or two groups; with so many for each, the last round of groups matters little.
constexpr int64_t groups_of_unit = 4;

KernelRequest queries_of(const KernelRequest& request) {
  KernelRequest queries = request;
  queries.with.clear();  // the outputs keep their numbers
  return queries;
}

KernelRequest keys_and_values_of(const KernelRequest& request) {
  KernelRequest others = without_epilogue(request);
  others.op = request.with[0];
  others.with = {request.with[1]};
  others.outputs.erase(others.outputs.begin());
  return others;
}

/// Binds a launch of keys_and_values_of(request) to the request's buffers, of which more come before.
void bind_outputs(GpuLaunch& launch, const KernelRequest& request) {
  const auto own = static_cast<int>(request.own_inputs()),
             first = static_cast<int>(request.inputs.size() + request.first_with());
  for (GpuLaunch::Argument& argument : launch.arguments)
    if (argument.buffer >= own) argument.buffer += first - own;
}

/// Binds the launch that adds the copies in scratch memory, its first buffer.
void bind_copies(GpuLaunch& launch, const KernelRequest& request) {
  launch.arguments.insert(launch.arguments.begin(), {request.scratch_buffer()});
}

int64_t number_bytes(const AttentionProblem& p) { return p.dtype == DType::f64 ? 8 : 4; }

/// How groups that have `rows` keys at a time share the keys of a head, each part with a copy of `numbers`.
struct Parts {
  int64_t chunks, parts, numbers;  // of all keys; of a head; of a copy
  Parts(const AttentionProblem& p, int64_t rows, int64_t copy_numbers, const GpuTraits& traits)
      : chunks(ceil_div(p.keys, rows)), numbers(copy_numbers) {
    const int64_t most = most_scratch / (p.batches * numbers * number_bytes(p));
    parts = std::min({chunks, ceil_div(groups_of_unit * traits.compute_units, p.batches), most});
    if (parts > 0) parts = ceil_div(chunks, ceil_div(chunks, parts));  // as many chunks in each
  }
  size_t bytes(const AttentionProblem& p) const {
    return static_cast<size_t>(p.batches * parts * numbers * number_bytes(p));
  }
};

Parts parts_of(const AttentionProblem& p, const AttentionPoint& point, const GpuTraits& traits) {
  return {p, point.rows, ceil_div(p.queries, point.block) * point.block * point.each(p.d) * point.side,
          traits};
}

/// Gives the kernel the copies, in the scratch buffer, as its last argument.
void add_copies(AttentionProblem& p) {
  const char* const number = p.dtype == DType::f64 ? "f64" : "f32";
  p.parameters += fmt::format(", BUFFER({}, copies)", number);
  p.binds += fmt::format(" BIND({}, copies);", number);
}

GpuCandidate one_kernel(const KernelRequest& request, AttentionProblem p, const AttentionPoint& point,
                        const Parts& parts) {
  add_copies(p);
  GpuLaunch launch = AttentionTiles(p, point, parts.parts).launch();
  bind_outputs(launch, request);
  launch.arguments.push_back({request.scratch_buffer()});
  GpuLaunch adding =
      AttentionTiles(attention_problem(queries_of(request), Kind::grad_qkv), point, parts.parts).sum_launch();
  bind_copies(adding, request);
  return {.name = fmt::format("attention gradients {}x{} of {} parts", point.rows, point.block, parts.parts),
          .parameters = {{"rows", point.rows},
                         {"block", point.block},
                         {"items", point.items},
                         {"parts", parts.parts}},
          .scratch_bytes = parts.bytes(p),
          .launches = {std::move(launch), std::move(adding)}};
}

/// Registers in which an item sums: its elements of the gradients by k, v and q. With more, compilers were
/// seen to spill.
constexpr int64_t most_sums = 48;
int64_t sums(const AttentionProblem& p, const AttentionPoint& point) {
  const int64_t d = point.each(p.d), e = point.each(p.e);
  const int64_t elements = point.own_each() * (d + e) + point.query_each() * d;
  return elements * number_bytes(p) / 4;
}

/// Whether one kernel takes less time than two even where the copies lie in a card's memory. It does 5 OWN
/// / 4 floating-point operations while it moves a byte of them; cards without matrix units do up to 20.
bool leads(const AttentionPoint& point, const Parts& parts) {
  return 5 * point.rows / 4 >= 40 || parts.parts == parts.chunks;
}

/// One kernel by matrix units. No card has run it, so it follows pairs of kernels.
void add_flash(std::vector<GpuCandidate>& to, const KernelRequest& request, const GpuTraits& traits) {
  AttentionProblem problem = attention_problem(keys_and_values_of(request), Kind::grad_qkv);
  const AttentionProblem queries = attention_problem(queries_of(request), Kind::grad_q);
  std::vector<FlashPoint> points = flash_points(problem, traits);
  add_copies(problem);
  for (FlashPoint& point : points) {
    const Parts parts(problem, point.rows(), FlashKernel(problem, point).copy_numbers(), traits);
    if (parts.parts == 0) continue;
    point.parts = parts.parts;
    GpuCandidate candidate = flash_candidate(problem, point);
    candidate.name = fmt::format("{} attention gradients {}x{} of {} parts", point.unit.unit->name,
                                 point.rows(), point.block, parts.parts);
    candidate.parameters["parts"] = parts.parts;
    candidate.scratch_bytes = parts.bytes(problem);
    bind_outputs(candidate.launches.front(), request);
    candidate.launches.front().arguments.push_back({request.scratch_buffer()});
    candidate.launches.push_back(FlashKernel(queries, point).sum_launch());
    bind_copies(candidate.launches.back(), request);
    to.push_back(std::move(candidate));
  }
}

/// Whether kernels by lanes are timed beside those by matrix units: lanes are slower, unless the compiler is
/// bad at units.
bool lanes_beside_units(const GpuTraits& traits) { return !traits.lanes_lead; }

/// The kernels that compute all three; `lead` come before pairs of kernels.
struct InOneKernel {
  std::vector<GpuCandidate> lead, follow;
  InOneKernel(const KernelRequest& request, const GpuTraits& traits) {
    const bool units = !flash_points(attention_problem(queries_of(request), Kind::grad_q), traits).empty();
    if (units) add_flash(follow, request, traits);
    const AttentionProblem problem = attention_problem(keys_and_values_of(request), Kind::grad_qkv);
    if (units && problem.tf32) return;  // lanes compute it in f32
    // In f32 units compute no three in one kernel, lanes do.
    const bool units_lack_it = problem.dtype == DType::f32;
    if (units && !units_lack_it && !lanes_beside_units(traits)) return;
    for (const AttentionPoint& point :
         traits.grain->points->attention(problem, AttentionFootprint(problem), traits)) {
      // Without a side, items have rows of their own: those of a group would add to the same gradient.
      if (point.side == 0 || sums(problem, point) > most_sums) continue;
      const Parts parts = parts_of(problem, point, traits);
      if (parts.parts > 0)
        (leads(point, parts) && !units ? lead : follow).push_back(one_kernel(request, problem, point, parts));
    }
    // With four pairs of kernels, they are eight candidates at most.
    constexpr size_t most_beside_units = 4;
    if (units && follow.size() > most_beside_units) follow.resize(most_beside_units);
  }
};

/// The kernels for pairs: two if there are matrix units, because all pairs are timed.
std::vector<GpuCandidate> kernels_of(const KernelRequest& request, Kind kind, const GpuTraits& traits) {
  std::vector<GpuCandidate> by_units = flash_candidates(attention_problem(request, kind), traits);
  if (by_units.empty()) return attention_candidates(request, kind, traits);
  if (lanes_beside_units(traits)) {
    const std::vector<GpuCandidate> all = attention_candidates(request, kind, traits);
    if (all.size() > by_units.size()) return {by_units.front(), all[by_units.size()]};
  }
  by_units.resize(std::min<size_t>(2, by_units.size()));
  return by_units;
}

std::vector<GpuCandidate> pairs(const KernelRequest& request, const GpuTraits& traits) {
  std::vector<GpuCandidate> all;
  const auto others = kernels_of(keys_and_values_of(request), Kind::grad_kv, traits);
  for (const GpuCandidate& first : kernels_of(queries_of(request), Kind::grad_q, traits))
    for (const GpuCandidate& second : others) {
      GpuCandidate pair = first;
      pair.name += ", " + second.name;
      for (const auto& [name, value] : second.parameters) pair.parameters["second_" + name] = value;
      pair.launches.push_back(second.launches.front());
      bind_outputs(pair.launches.back(), request);
      all.push_back(std::move(pair));
    }
  return all;
}

}  // namespace

std::vector<GpuCandidate> attention_gradients(const KernelRequest& request, const GpuTraits& traits) {
  InOneKernel one(request, traits);
  std::vector<GpuCandidate> all = std::move(one.lead);
  std::ranges::move(pairs(request, traits), std::back_inserter(all));
  std::ranges::move(one.follow, std::back_inserter(all));
  return all;
}

bool has_attention_gradients(const KernelRequest& request, const GpuTraits& traits) {
  if (request.output().shape.size() == 0) return false;
  const InOneKernel one(request, traits);
  return !one.lead.empty() || !one.follow.empty();
}

}  // namespace athanor::gpu
