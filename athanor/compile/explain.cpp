// The plan as text for people, and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/compile/flow_text.h"
#include "athanor/compile/plan.h"

namespace athanor {
namespace {

constexpr size_t contest_indent = 14;

const PlanValue& result_of(const Plan& plan, const PlanStep& step) {
  return plan.values[static_cast<size_t>(step.writes.front())];
}

std::string place_of(const Plan& plan, int v) {
  const PlanValue& value = plan.values[static_cast<size_t>(v)];
  switch (value.kind) {
    case PlanValue::Kind::input:
      return fmt::format("in{}", value.binding);
    case PlanValue::Kind::output:
      return value.in_place_of < 0 ? fmt::format("out{}", value.binding)
                                   : fmt::format("out{}=in{}", value.binding,
                                                 plan.values[static_cast<size_t>(value.in_place_of)].binding);
    case PlanValue::Kind::temporary:
      break;
  }
  return fmt::format("@{:#x}", value.offset);
}

// The first part, and the number of others.
std::string parts_of(const PlanStep& step) {
  if (step.parts.empty()) return {};
  const size_t others = step.parts.size() - 1;
  return others == 0 ? step.parts.front() : fmt::format("{} +{}", step.parts.front(), others);
}

std::string count(double n) {
  static constexpr const char* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (n >= 1000 && unit < 4) n /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f}", n)
                   : fmt::format("{:.{}f}{}", n,
                                 n < 10    ? 2
                                 : n < 100 ? 1
                                           : 0,
                                 units[unit]);
}

std::string shorten(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return text.substr(0, width - 3) + "...";
}

using Row = std::vector<std::string>;

std::string table(const std::vector<Row>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line +=
          right[c] ? fmt::format("{:>{}}  ", row[c], widths[c]) : fmt::format("{:<{}}  ", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

size_t columns_of(const std::string& text) {
  size_t most = 0;
  for (const std::string& line : split(text, '\n')) most = std::max(most, line.size());
  return most;
}

std::string places_of(const Plan& plan, const PlanStep& step) {
  std::vector<std::string> places;
  for (int v : step.writes) places.push_back(place_of(plan, v));
  return join(places, " ");
}

std::string layout_of(const PlanValue& value) {
  if (value.row_pitch > 0) return fmt::format("rows {} apart", value.row_pitch);
  return value.type.shape.rank() == 4 ? to_string(value.layout) : "";
}

std::string work_of(int64_t amount) { return count(static_cast<double>(amount)); }

const PlanQueue& queue_of(const Plan& plan, const PlanStep& step) {
  return plan.queues[static_cast<size_t>(step.queue)];
}

/// For plans with several queues: the step's queue, and the steps that it waits for.
std::string order_of(const Plan& plan, const PlanStep& step) {
  std::string text = to_string(queue_of(plan, step));
  if (!step.waits.empty()) text += fmt::format(" after {}", fmt::join(step.waits, " "));
  return text;
}

/// The kernel, and the type that it computes in if that is not the stored type: "generic gemm in f32".
std::string kernel_of(const PlanStep& step, size_t width) {
  std::string name = shorten(step.kernel.name, width);
  const std::string in = step.request ? step.request->computes_in() : std::string();
  return in.empty() ? name : fmt::format("{} in {}", name, in);
}

/// A table with a line for each step, as wide as needed.
std::string steps_table(const Plan& plan) {
  const bool several = plan.queues.size() > 1;
  std::vector<Row> rows{{"step", "part", "ops", "kernel", "why", several ? "queue" : "device", "result",
                         "layout", "FLOPs", "bytes", "buffer", "line"}};
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const PlanValue& result = result_of(plan, step);
    rows.push_back({fmt::format("{}", i), shorten(parts_of(step), 36), shorten(step.name(), 44),
                    kernel_of(step, 28), step.why, several ? order_of(plan, step) : to_string(step.device),
                    to_string(result.type), layout_of(result), work_of(step.flops), work_of(step.bytes),
                    shorten(places_of(plan, step), 28), step.where});
  }
  return table(rows, {true, false, false, false, false, false, false, false, true, true, false, false});
}

/// The same as a few short lines for each step. Only the names of parts may be shortened.
std::string steps_in(const Plan& plan, size_t columns) {
  constexpr size_t number = 6, amounts = 18, details = 8;  // columns, with the blanks beside them
  size_t part = 4;
  for (const PlanStep& step : plan.steps) part = std::max(part, parts_of(step).size());
  part = std::min(part, columns / 4);
  const size_t ops = columns - number - part - 2 - amounts;
  const auto head = [&](const std::string& i, const std::string& name, const std::string& op,
                        const std::string& flops, const std::string& bytes) {
    std::string line =
        fmt::format("{:>4}  {:<{}}  {:<{}}  {:>7}  {:>7}", i, name, part, op, ops, flops, bytes);
    return line.erase(line.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = head("step", "part", "ops", "FLOPs", "bytes") +
                     flowed({"kernel (why)", "-> result, layout, buffer", "line"}, columns, details);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const PlanValue& result = result_of(plan, step);
    const std::vector<std::string> names = broken(step.name(), ops);
    text += head(fmt::format("{}", i), shorten(parts_of(step), part), names[0], work_of(step.flops),
                 work_of(step.bytes));
    for (size_t line = 1; line < names.size(); ++line) text += head("", "", names[line], "", "");
    const std::string layout = layout_of(result);
    text += flowed({plan.queues.size() > 1 ? fmt::format("on {}:", order_of(plan, step)) : "",
                    fmt::format("{} ({})", kernel_of(step, step.kernel.name.size()), step.why),
                    fmt::format("-> {}{}{} {}", to_string(result.type), layout.empty() ? "" : " ", layout,
                                places_of(plan, step)),
                    step.where},
                   columns, details);
  }
  return text;
}

/// Lists the timed kernels for each problem, fastest first. Steps with the same problem share its lines.
std::string contests(const Plan& plan, size_t columns) {
  std::vector<std::vector<size_t>> problems;
  const auto problem_of = [&](size_t i) { return plan.steps[i].request->key(); };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].measured.size() < 2 || !plan.steps[i].request) continue;
    const auto same = std::ranges::find_if(
        problems, [&](const auto& steps) { return problem_of(steps.front()) == problem_of(i); });
    if (same == problems.end())
      problems.push_back({i});
    else
      same->push_back(i);
  }
  if (problems.empty()) return {};
  std::vector<Row> rows{{"steps", "ops", "", "time", "kernel"}};
  std::string narrow;
  for (const auto& steps : problems) {
    const PlanStep& step = plan.steps[steps.front()];
    auto measured = step.measured;
    std::ranges::stable_sort(measured, {}, &std::pair<std::string, double>::second);
    const std::string numbers = fmt::format("{}", fmt::join(steps, " "));
    narrow += wrapped_lines(fmt::format("step{} {}: {}", steps.size() == 1 ? "" : "s", numbers, step.name()),
                            columns) +
              "\n";
    bool first = true;
    for (const auto& [name, seconds] : measured) {
      const char* runs = name == step.kernel.name ? "*" : "";
      rows.push_back({first ? numbers : "", first ? step.name() : "", runs, format_duration(seconds), name});
      first = false;
      const std::vector<std::string> lines = broken(name, columns - contest_indent);
      narrow += fmt::format("{:>3}{:>9}  {}\n", runs, format_duration(seconds), lines[0]);
      for (size_t line = 1; line < lines.size(); ++line)
        narrow += std::string(contest_indent, ' ') + lines[line] + "\n";
    }
  }
  const std::string wide = table(rows, {false, false, false, true, false});
  return "\nKernels that were timed (* runs):\n\n" + (columns_of(wide) <= columns ? wide : narrow);
}

/// Kernels that were considered but cannot be used, for each problem and reason. Slower ones are not listed.
std::string left_out_of(const Plan& plan, size_t columns) {
  std::vector<std::string> problems;
  std::string text;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.left_out.empty() || !step.request) continue;
    const std::string key = fmt::format("{} {}", to_string(step.device), step.request->key());
    if (std::ranges::find(problems, key) != problems.end()) continue;
    problems.push_back(key);
    text += wrapped_lines(fmt::format("step {} {}:", i, step.name()), columns) + "\n";
    std::vector<std::string> told;
    for (const LeftOut& one : step.left_out) {
      if (std::ranges::find(told, one.why) != told.end()) continue;
      told.push_back(one.why);
      std::vector<std::string> names;
      for (const LeftOut& other : step.left_out)
        if (other.why == one.why) names.push_back(other.name);
      text += "  " + join(broken(fmt::format("{}: {}", join(names, ", "), one.why), columns - 4), "\n    ") +
              "\n";
    }
  }
  return text.empty() ? "" : "\nKernels that were left out:\n\n" + text;
}

/// "26 kernels on cpu, 12 kernels on opencl:0, 4 copies between them"
std::string kernels_of(const Plan& plan) {
  std::vector<std::string> parts;
  for (const Device device : plan.devices) {
    const auto kernels = std::ranges::count_if(plan.steps, [&](const PlanStep& step) {
      return step.kind != PlanStep::Kind::copy && step.device == device;
    });
    parts.push_back(fmt::format("{} kernels on {}", kernels, to_string(device)));
  }
  if (plan.copies() > 0) parts.push_back(fmt::format("{} copies between them", plan.copies()));
  return join(parts, ", ");
}

/// " (1.2 MiB on cpu, 3.4 MiB on opencl:0)"; "" if there is one device.
std::string memory_by_device(const Plan& plan) {
  if (plan.devices.size() < 2) return {};
  std::vector<std::string> parts;
  for (const Device device : plan.devices)
    parts.push_back(fmt::format("{} on {}",
                                format_bytes(static_cast<uint64_t>(plan.planned_memory_bytes(device))),
                                to_string(device)));
  return " (" + join(parts, ", ") + ")";
}

}  // namespace

// The number of casts, for plans in mixed precision; "" if there are none.
static std::string casts_of(const Plan& plan) {
  int64_t casts = 0, alone = 0;
  for (const PlanStep& step : plan.steps) {
    const auto here =
        std::ranges::count_if(step.ops, [](const auto& op) { return op.starts_with("cast to "); });
    // A chain names the casts of all its loops; loops of a joined launch have the same, which it names once.
    const bool joined = step.loops.size() > 1 && !step.chained;
    casts += joined ? here * std::ssize(step.loops) : here;
    if (here > 0 && here == std::ssize(step.ops)) ++alone;
  }
  return casts == 0 ? ""
                    : fmt::format("{} casts between float types, {} kernel{} of nothing else.\n", casts,
                                  alone, alone == 1 ? "" : "s");
}

static std::string recomputed_in(const Plan& plan) {
  const Recomputation& again = plan.recomputed;
  if (again.kernels == 0) return {};
  const std::string time = again.seconds > 0 ? fmt::format("about {}, ", format_duration(again.seconds)) : "";
  return fmt::format("{} kernel{} again to save {} ({} without): {}FLOP, {}{:.1f} % of the time.\n",
                     again.kernels, again.kernels == 1 ? " runs" : "s run",
                     format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, again.bytes))),
                     format_bytes(static_cast<uint64_t>(plan.planned_memory_bytes() + again.bytes)),
                     count(static_cast<double>(again.flops)) + (again.flops < 1000 ? " " : ""), time,
                     100 * again.share);
}

// Why the plan is not replayed; "" for plans on the host only, where no queue captures launches.
static std::string replay_of(const Plan& plan) {
  const bool on_host = std::ranges::all_of(plan.devices, [](Device device) { return device == Device{}; });
  const std::string why = plan.why_not_replayed();
  return on_host || why.empty() || plan.steps.size() < 2 ? "" : fmt::format("Not replayed: {}.\n", why);
}

static std::string libraries_of(const Plan& plan) {
  return plan.libraries.empty() ? "" : fmt::format("Libraries: {}.\n", fmt::join(plan.libraries, "; "));
}

// "0 off it", "2 on the host for another device"
static std::string off_device_of(const Plan& plan) {
  if (const int moved = plan.kernels_off_device(); moved > 0)
    return fmt::format("{} on the host for another device", moved);
  return plan.devices.size() > 1 ? "0 off them" : "0 off it";
}

std::string explain(const Plan& plan, size_t columns) {
  columns = std::max(columns, least_columns);
  std::string text = steps_table(plan);
  if (columns_of(text) > columns) text = steps_in(plan, columns);
  const std::string totals = fmt::format(
      "\n{}, {}; {}FLOP and {}B moved at least.\n"
      "Memory: {} planned{}, of which {} are temporaries and scratch (buffers \"@\", shared over time).\n",
      kernels_of(plan), off_device_of(plan),
      count(static_cast<double>(plan.flops())) + (plan.flops() < 1000 ? " " : ""),
      count(static_cast<double>(plan.bytes())) + (plan.bytes() < 1000 ? " " : ""),
      format_bytes(static_cast<uint64_t>(plan.planned_memory_bytes())), memory_by_device(plan),
      format_bytes(static_cast<uint64_t>(plan.arena_bytes())));
  return text +
         wrapped_lines(totals + recomputed_in(plan) + casts_of(plan) + replay_of(plan) + libraries_of(plan),
                       columns) +
         contests(plan, columns) + left_out_of(plan, columns);
}

nlohmann::json to_json(const Plan& plan) {
  using nlohmann::json;
  json values = json::array();
  for (const auto& value : plan.values) {
    static constexpr const char* kinds[] = {"input", "output", "temporary"};
    json v{{"type", to_string(value.type)},
           {"layout", to_string(value.layout)},
           {"kind", kinds[static_cast<int>(value.kind)]},
           {"device", to_string(value.type.device)},
           {"bytes", value.bytes()},
           {"first_step", value.first_step},
           {"last_step", value.last_step}};
    if (value.row_pitch > 0) v["row_pitch"] = value.row_pitch;
    if (value.binding >= 0) v["binding"] = value.binding;
    if (value.in_place_of >= 0) v["in_place_of"] = value.in_place_of;
    if (value.offset >= 0) v["offset"] = value.offset;
    values.push_back(std::move(v));
  }
  json steps = json::array();
  for (const auto& step : plan.steps) {
    json measured = json::object();
    for (const auto& [name, seconds] : step.measured) measured[name] = seconds;
    json left_out = json::array();
    for (const LeftOut& one : step.left_out) left_out.push_back({{"name", one.name}, {"why", one.why}});
    json buffers = json::array();
    for (const auto& ref : step.buffers)
      buffers.push_back({{"value", ref.value}, {"byte_offset", ref.byte_offset}});
    json s{{"kind", step.kind == PlanStep::Kind::copy ? "copy" : "launch"},
           {"queue", step.queue},
           {"waits", step.waits},
           {"signals", step.signals},
           {"ops", step.ops},
           {"kernel", step.kernel.name},
           {"why", step.why},
           {"measured_seconds", measured},
           {"left_out", left_out},
           {"device", to_string(step.device)},
           {"reads", step.reads},
           {"writes", step.writes},
           {"buffers", buffers},
           {"flops", step.flops},
           {"bytes", step.bytes},
           {"scratch_bytes", step.kernel.scratch_bytes},
           {"again", step.again},
           {"parts", step.parts},
           {"where", step.where}};
    if (step.scratch_offset >= 0) s["scratch_offset"] = step.scratch_offset;
    if (step.request) s["problem"] = step.request->key();
    if (step.loops.size() == 1) s["loop"] = to_string(step.loops.front());
    if (step.chained) s["chained"] = true;
    if (step.loops.size() > 1)
      for (const auto& loop : step.loops) s["loops"].push_back(to_string(loop));
    steps.push_back(std::move(s));
  }
  json queues = json::array(), arenas = json::array();
  for (const PlanQueue& queue : plan.queues) queues.push_back(to_string(queue));
  for (const PlanArena& arena : plan.arenas)
    arenas.push_back({{"device", to_string(arena.device)}, {"bytes", arena.bytes}});
  return {{"schema", 2},
          {"device", to_string(plan.device())},
          {"queues", queues},
          {"steps", steps},
          {"values", values},
          {"inputs", plan.inputs},
          {"outputs", plan.outputs},
          {"arenas", arenas},
          {"arena_bytes", plan.arena_bytes()},
          {"planned_memory_bytes", plan.planned_memory_bytes()},
          {"recomputed",
           {{"kernels", plan.recomputed.kernels},
            {"flops", plan.recomputed.flops},
            {"bytes_saved", plan.recomputed.bytes},
            {"seconds", plan.recomputed.seconds},
            {"share_of_time", plan.recomputed.share}}},
          {"kernels_total", plan.steps.size()},
          {"kernels_off_device", plan.kernels_off_device()},
          {"flops", plan.flops()},
          {"bytes", plan.bytes()},
          {"libraries", plan.libraries},
          {"compile_seconds", plan.compile_seconds}};
}

}  // namespace athanor
