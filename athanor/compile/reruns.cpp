#include "athanor/compile/reruns.h"

#include <algorithm>
#include <limits>
#include <map>

#include "athanor/compile/canonical_loop.h"

namespace athanor {
namespace {

constexpr int never = std::numeric_limits<int>::max();
// An operand smaller than the recomputed value by more than this factor is kept, not recomputed.
constexpr int64_t small_share = 8;

int64_t bytes_of_temporary(const PlanValue& value) {
  constexpr int64_t alignment = 64;
  const auto bytes = std::max<int64_t>(1, value.bytes());
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Reruns::Reruns(const Plan& plan)
    : plan_(plan),
      writer_(plan.values.size(), -1),
      last_read_(plan.values.size(), -1),
      gap_begin_(plan.values.size(), -1),
      gap_end_(plan.values.size(), never),
      overwritten_(plan.values.size(), never),
      reruns_(plan.values.size()),
      seconds_(plan.values.size(), 0) {
  note_uses();
  for (int v = 0; v < count(); ++v) make_rerun(v);
}

void Reruns::note_uses() {
  std::vector<int> before(plan_.values.size(), -1);  // for each value: its last use so far
  for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
    const PlanStep& step = plan_.steps[static_cast<size_t>(s)];
    for (const int v : step.reads) {
      const auto i = static_cast<size_t>(v);
      last_read_[i] = s;
      if (writer_[i] < 0) continue;
      if (gap_begin_[i] < 0 || s - before[i] > gap_end_[i] - gap_begin_[i])
        gap_begin_[i] = before[i], gap_end_[i] = s;
      before[i] = s;
    }
    for (const int v : step.writes) {
      writer_[static_cast<size_t>(v)] = before[static_cast<size_t>(v)] = s;
      if (const int in = value(v).in_place_of; in >= 0 && value(v).kind == PlanValue::Kind::output)
        overwritten_[static_cast<size_t>(in)] = s;
    }
  }
}

void Reruns::make_rerun(int v) {
  const int writer = writer_[static_cast<size_t>(v)];
  if (value(v).kind != PlanValue::Kind::temporary || writer < 0 || gap_begin_[static_cast<size_t>(v)] < 0)
    return;
  const PlanStep& step = plan_.steps[static_cast<size_t>(writer)];
  std::optional<PlanStep>& rerun = reruns_[static_cast<size_t>(v)];
  if (step.kind != PlanStep::Kind::launch || step.loops.size() > 1) return;
  if (step.loops.size() == 1)
    rerun = cut_loop(step, v);
  else if (step.writes.size() == 1)
    rerun = step;
  if (!rerun) return;
  rerun->again = true;
  rerun->signals = false;
  rerun->waits.clear();
  rerun->scratch_offset = -1;
  seconds_[static_cast<size_t>(v)] = times_.seconds(*rerun);
  candidates_.push_back(v);
}

// The part of a loop that computes one value element by element; nullopt for the results of reductions.
std::optional<PlanStep> Reruns::cut_loop(const PlanStep& step, int v) const {
  LoopProgram program = step.loops.front();
  std::erase_if(program.stores, [&](const LoopStore& store) {
    const int buffer = program.operands[static_cast<size_t>(store.operand)].buffer;
    return step.buffers[static_cast<size_t>(buffer)].value != v;
  });
  if (program.stores.empty()) return std::nullopt;
  program.reductions.clear(), program.epilogue.clear(), program.epilogue_stores.clear();
  program.reduced.assign(program.space.size(), false);
  CanonicalLoop cut = canonical(program);
  PlanStep rerun = step;
  rerun.loops.clear(), rerun.buffers.clear(), rerun.reads.clear(), rerun.ops.clear();
  rerun.kernel = {}, rerun.why.clear(), rerun.measured.clear(), rerun.left_out.clear();
  rerun.writes = {v};
  for (const int buffer : cut.buffers) {
    const BufferRef& ref = step.buffers[static_cast<size_t>(buffer)];
    rerun.buffers.push_back(ref);
    if (ref.value != v && std::ranges::count(rerun.reads, ref.value) == 0) rerun.reads.push_back(ref.value);
  }
  for (const LoopStep& one : cut.program.body)
    if (one.kind == LoopStep::Kind::primitive) rerun.ops.emplace_back(to_string(one.prim));
  rerun.flops = cut.program.flops();
  rerun.bytes = cut.program.bytes();
  rerun.loops.push_back(std::move(cut.program));
  return rerun;
}

Reruns::Selection Reruns::by_hand() const {
  std::map<int, int> ends;  // for each segment: its last step
  for (int v = 0; v < count(); ++v)
    if (const int number = value(v).segment.number; number != 0) {
      int& end = ends[number];
      end = std::max(end, writer_[static_cast<size_t>(v)]);
    }
  Selection selection(plan_.values.size(), How::kept);
  for (const int v : candidates_) {
    const Segment& segment = value(v).segment;
    if (segment.number == 0 || segment.result) continue;
    const auto i = static_cast<size_t>(v);
    const int end = ends.at(segment.number);
    if (gap_begin_[i] <= end && gap_end_[i] > end)
      selection[i] = How::again;
    else if (last_read_[i] <= end)
      selection[i] = How::needed;
  }
  return selection;
}

Reruns::Selection Reruns::with(const Selection& selection, int added) const {
  Selection more = selection;
  more[static_cast<size_t>(added)] = How::again;
  const int when = gap_end_[static_cast<size_t>(added)];
  std::vector<int> stack{added};
  while (!stack.empty()) {
    const int v = stack.back();
    stack.pop_back();
    for (const int from : reruns_[static_cast<size_t>(v)]->reads) {
      const auto i = static_cast<size_t>(from);
      if (more[i] != How::kept || !reruns_[i] || last_read_[i] >= when) continue;
      if (bytes_of_temporary(value(from)) * small_share < bytes_of_temporary(value(added))) continue;
      more[i] = How::needed;
      stack.push_back(from);
    }
  }
  return more;
}

bool Reruns::is_late(const Selection& selection, int v, int step) const {
  const auto i = static_cast<size_t>(v);
  if (selection[i] == How::again) return step > gap_begin_[i];
  return selection[i] == How::needed && step > last_read_[i];
}

// The number under which a step reads a value: v, or v + count() for the recomputed value.
int Reruns::value_for(const Selection& selection, const Run& run, int v, int step) const {
  const bool late = is_late(selection, v, step) && run.first[static_cast<size_t>(v + count())] >= 0;
  return late ? v + count() : v;
}

void Reruns::add(Run& run, Item item, const std::vector<int>& reads, const std::vector<int>& writes) const {
  const auto position = static_cast<int>(run.items.size());
  run.items.push_back(item);
  for (const auto* list : {&reads, &writes})
    for (const int v : *list) {
      int& first = run.first[static_cast<size_t>(v)];
      if (first < 0) first = position;
      run.last[static_cast<size_t>(v)] = position;
    }
}

void Reruns::make(const Selection& selection, Run& run, int v, int step) const {
  const PlanStep& rerun = *reruns_[static_cast<size_t>(v)];
  std::vector<int> reads;
  for (const int from : rerun.reads) {
    if (overwritten_[static_cast<size_t>(from)] < step) run.possible = false;
    if (is_late(selection, from, step) && run.first[static_cast<size_t>(from + count())] < 0)
      make(selection, run, from, step);
    reads.push_back(value_for(selection, run, from, step));
  }
  run.seconds += seconds_[static_cast<size_t>(v)];
  add(run, {.rerun = v}, reads, {v + count()});
}

Reruns::Run Reruns::run(const Selection& selection) const {
  Run run;
  run.first.assign(2 * plan_.values.size(), -1);
  run.last.assign(2 * plan_.values.size(), -1);
  std::vector<int> reads;
  for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
    const PlanStep& step = plan_.steps[static_cast<size_t>(s)];
    reads.clear();
    for (const int v : step.reads) {
      if (is_late(selection, v, s) && run.first[static_cast<size_t>(v + count())] < 0)
        make(selection, run, v, s);
      reads.push_back(value_for(selection, run, v, s));
    }
    add(run, {.step = s}, reads, step.writes);
  }
  return run;
}

int64_t Reruns::Outcome::excess(int64_t target) const {
  int64_t sum = 0;
  for (const int64_t bytes : alive) sum += std::max<int64_t>(0, bytes - target);
  return sum;
}

Reruns::Outcome Reruns::outcome(const Selection& selection, Device device) const {
  const Run made = run(selection);
  Outcome outcome{made.possible, made.seconds, std::vector<int64_t>(made.items.size() + 1, 0)};
  for (int v = 0; v < 2 * count(); ++v) {
    const auto i = static_cast<size_t>(v);
    const PlanValue& of = value(v % count());
    if (made.first[i] < 0 || of.kind != PlanValue::Kind::temporary || of.type.device != device) continue;
    const int64_t bytes = bytes_of_temporary(of);
    outcome.alive[static_cast<size_t>(made.first[i])] += bytes;
    outcome.alive[static_cast<size_t>(made.last[i]) + 1] -= bytes;
  }
  int64_t alive = 0;
  for (size_t p = 0; p < made.items.size(); ++p) {
    const auto [s, rerun] = made.items[p];
    const PlanStep& step =
        rerun >= 0 ? *reruns_[static_cast<size_t>(rerun)] : plan_.steps[static_cast<size_t>(s)];
    alive += outcome.alive[p];
    outcome.alive[p] = alive;
    if (step.device == device) outcome.alive[p] += static_cast<int64_t>(step.kernel.scratch_bytes);
  }
  outcome.alive.pop_back();
  return outcome;
}

Plan Reruns::apply(const Selection& selection) const {
  const Run made = run(selection);
  Plan result = plan_;
  result.steps.clear();
  std::vector<int> again(plan_.values.size(), -1);
  for (size_t i = 0; i < again.size(); ++i)
    if (made.first[i + again.size()] >= 0) {
      again[i] = static_cast<int>(result.values.size());
      PlanValue second = plan_.values[i];
      second.in_place_of = -1;
      result.values.push_back(second);
    }
  int now = 0;  // the step of the original plan that the next reruns come before
  for (const auto [s, rerun] : made.items) {
    PlanStep step = rerun >= 0 ? *reruns_[static_cast<size_t>(rerun)] : plan_.steps[static_cast<size_t>(s)];
    const auto renamed = [&](int v) {
      return is_late(selection, v, now) && again[static_cast<size_t>(v)] >= 0 ? again[static_cast<size_t>(v)]
                                                                              : v;
    };
    for (int& v : step.reads) v = renamed(v);
    if (rerun >= 0) step.writes = {again[static_cast<size_t>(rerun)]};
    for (BufferRef& ref : step.buffers)
      ref.value = ref.value == rerun ? step.writes.front() : renamed(ref.value);
    result.steps.push_back(std::move(step));
    if (rerun < 0) now = s + 1;
  }
  return result;
}

}  // namespace athanor
