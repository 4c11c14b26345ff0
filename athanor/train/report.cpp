#include "athanor/train/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "athanor/base/base64.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/base/xml.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/examples_record.h"
#include "athanor/train/memory_svg.h"
#include "athanor/train/report_style.h"
#include "athanor/train/run_status.h"
#include "athanor/train/sampling.h"
#include "athanor/train/scoring.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The document in a file; null if there is none.
json document_in(const fs::path& path) {
  if (!fs::exists(path)) return {};
  json read = json::parse(read_text_file(path), nullptr, false);
  if (read.is_object()) return read;
  throw Error(ErrorCode::format, "the file is not JSON", path.string(), "Restore it, or remove it");
}

std::string time_text(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

/// The SVG as an image, so that its style does not mix with that of the page.
std::string svg_picture(const std::string& svg, const std::string& what) {
  return fmt::format("<div class=\"picture\"><img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"></div>\n",
                     escape_xml(what), to_base64(bytes_of(svg)));
}

std::string picture_section(const fs::path& file, const std::string& heading) {
  if (!fs::exists(file)) return {};
  return fmt::format("<h2>{}</h2>\n", heading) + svg_picture(read_text_file(file), heading);
}

std::string figure(const std::string& value, const std::string& name) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>\n", escape_xml(value), escape_xml(name));
}

std::string head_of(const RunInfo& run) {
  const std::string title = run.config
                                ? fmt::format("{} on {}", run.config->model, dataset_title(run.config->data))
                                : run.folder.path.string();
  const RunStatus& status = run.status;
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><main>\n<h1>{0} <span class=\"state\">{2}</span></h1>\n",
      escape_xml(title), report_style, to_string(status.state));
  html += fmt::format("<p class=\"soft\">{}{}</p>\n", escape_xml(run.folder.path.string()),
                      status.started > 0 ? ", started " + time_text(status.started) : "");
  if (!status.data.empty()) html += fmt::format("<p class=\"soft\">{}</p>\n", escape_xml(status.data));
  if (!status.trust.empty())
    html +=
        fmt::format("<p class=\"error\">{} is {}</p>\n", escape_xml(status.device), escape_xml(status.trust));
  if (!status.error.empty()) html += fmt::format("<p class=\"error\">{}</p>\n", escape_xml(status.error));
  return html;
}

std::string figures_of(const RunInfo& run, const json& summary) {
  const RunStatus& status = run.status;
  std::string html = "<div class=\"figures\">\n";
  const auto number = [&](const char* field, const std::function<std::string(double)>& show,
                          const char* name) {
    if (summary.is_object() && summary.contains(field) && summary[field].is_number())
      html += figure(show(summary[field]), name);
  };
  const auto percent = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
  const auto plain = [](double value) { return fmt::format("{:.4f}", value); };
  const auto count = [](double value) { return grouped(static_cast<int64_t>(value)); };
  const bool text = summary.is_object() && summary.contains("test_perplexity");
  number(
      "test_bits_per_byte", [](double value) { return fmt::format("{:.3f}", value); },
      "bits per byte of test text");
  number(
      "test_perplexity", [](double value) { return fmt::format("{:.2f}", value); }, "perplexity");
  const auto short_form = [](double value) { return fmt::format("{:.5g}", value); };
  number("test_mean_iou", percent, "mean IoU over classes");
  const auto has = [&](const char* name) { return summary.is_object() && summary.contains(name); };
  if (!text)
    number("test_accuracy", percent,
           has("test_mean_iou")         ? "of test pixels right"
           : has("examples_per_second") ? "of test examples right"
                                        : "of test images right");
  number("test_r2", plain, "R\u00b2 of test examples");
  number("test_rmse", short_form, "RMSE");
  number("test_mae", short_form, "mean absolute error");
  number("test_f1", percent, "F1, mean over classes");
  number("test_top5_accuracy", percent, "among the first five");
  number("test_loss", plain, "test loss");
  number("train_loss", plain, "training loss");
  if (!summary.is_object() && !status.best.empty()) html += figure(status.best, "best test so far");
  html += figure(fmt::format("{} of {}", grouped(status.steps), grouped(status.steps_in_all)), "steps");
  html += figure(format_duration(status.train_seconds), "training time");
  number("images_per_second", count, "images a second");
  number("examples_per_second", count, "examples a second");
  number("tokens_per_second", count, "tokens a second");
  number(
      "step_ms_median", [](double value) { return fmt::format("{:.2f} ms", value); }, "a step (median)");
  number(
      "peak_memory_bytes", [](double value) { return format_bytes(static_cast<uint64_t>(value)); },
      "memory at most");
  html += figure(grouped(status.parameters), "parameters");
  return html + "</div>\n";
}

/// A measure that only a test has: its field, its name, and how it is shown.
struct MoreColumn {
  const char *field, *name;
  bool percent;
};
constexpr std::array<MoreColumn, 4> more_columns{
    MoreColumn{"f1", "F1", true}, MoreColumn{"mean_iou", "mean IoU", true}, MoreColumn{"rmse", "RMSE", false},
    MoreColumn{"mae", "mean absolute error", false}};

std::string epochs_of(const RunInfo& run) {
  if (run.status.epochs.empty()) return {};
  const EpochMetrics& last = run.status.epochs.back();
  const bool share = last.quality == "accuracy";
  const auto quality_text = [&](double value) {
    return share ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
  };
  std::string html = fmt::format(
      "<div class=\"table\"><table><tr><th>epoch</th><th class=\"n\">training loss</th><th "
      "class=\"n\">training {0}</th><th class=\"n\">test loss</th><th class=\"n\">test {0}</th>",
      share ? "accuracy" : "R\u00b2");
  for (const MoreColumn& column : more_columns)
    if (last.test_more.contains(column.field)) html += fmt::format("<th class=\"n\">{}</th>", column.name);
  html += "</tr>\n";
  for (const EpochMetrics& epoch : run.status.epochs) {
    html += fmt::format(
        "<tr><td>{}{}</td><td class=\"n\">{:.4f}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{:.4f}</td><td class=\"n\">{}</td>",
        epoch.epoch, epoch.epoch == run.status.best_epoch ? " (best)" : "", epoch.train_loss,
        quality_text(epoch.train_accuracy), epoch.test_loss, quality_text(epoch.test_accuracy));
    for (const auto& [field, name, percent] : more_columns)
      if (last.test_more.contains(field)) {
        const auto found = epoch.test_more.find(field);
        const double value = found == epoch.test_more.end() ? 0 : found->second;
        html += fmt::format("<td class=\"n\">{}</td>", found == epoch.test_more.end() ? ""
                                                       : percent ? fmt::format("{:.2f} %", 100 * value)
                                                                 : fmt::format("{:.5g}", value));
      }
    html += "</tr>\n";
  }
  return fmt::format("<details><summary>{} epoch{}</summary>{}</table></div></details>\n",
                     run.status.epochs.size(), run.status.epochs.size() == 1 ? "" : "s", html);
}

std::string pictures_of(const json& examples, const char* list, const char* mark) {
  std::string html = "<div class=\"examples\">\n";
  for (const json& one : examples.at(list)) {
    const std::string right = escape_xml(one.at("right").get<std::string>());
    const std::string answer = escape_xml(one.at("answer").get<std::string>());
    html += fmt::format(
        "<figure class=\"{}\"><img alt=\"{}\" src=\"data:image/png;base64,{}\"><b>{}</b> "
        "{:.0f}&nbsp;%{}</figure>\n",
        mark, right, escape_xml(one.at("png").get<std::string>()), answer,
        100 * one.at("share").get<double>(), right == answer ? "" : "<br>it is " + right);
  }
  return html + "</div>\n";
}

std::string masks_of(const json& examples) {
  std::string html =
      "<h2>Test images: image, truth, prediction</h2>\n<div class=\"table\"><table class=\"masks\">\n";
  for (const json& one : examples) {
    html += "<tr>";
    for (const char* part : {"png", "right", "answer"})
      html += fmt::format("<td><img alt=\"{}\" src=\"data:image/png;base64,{}\"></td>",
                          std::string_view(part) == "png"     ? "image"
                          : std::string_view(part) == "right" ? "truth"
                                                              : "prediction",
                          escape_xml(one.at(part).get<std::string>()));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string examples_of(const RunFolder& folder) {
  std::string html;
  if (const json examples = document_in(folder.examples()); examples.is_object()) {
    if (examples.contains("pixels")) return masks_of(examples.at("pixels"));
    if (!examples.at("mistakes").empty())
      html += "<h2>Mistakes that the model was surest of</h2>\n" + pictures_of(examples, "mistakes", "wrong");
    if (!examples.at("right").empty())
      html += "<h2>Examples that are right</h2>\n" + pictures_of(examples, "right", "right");
  }
  const std::vector<WrittenSample> samples = read_samples(folder.samples());
  if (samples.empty()) return html;
  html += "<h2>What the model writes</h2>\n";
  const auto shown = [](const WrittenSample& sample) {
    std::string lines;
    for (const std::string& line : split(without_controls(sample.text), '\n'))
      lines += (lines.empty() ? "" : "\n") + escape_xml(line);
    return fmt::format("<p class=\"soft\">after {} steps</p><pre>{}</pre>\n", grouped(sample.step), lines);
  };
  html += shown(samples.back());
  if (samples.size() == 1) return html;
  html += "<details><summary>Earlier</summary>\n";
  for (size_t i = samples.size() - 1; i-- > 0;) html += shown(samples[i]);
  return html + "</details>\n";
}

std::string first_words(const json& list, size_t most) {
  std::vector<std::string> words;
  for (const json& word : list)
    if (words.size() < most) words.push_back(word);
  return join(words) + (list.size() > most ? ", ..." : "");
}

std::string kernels_of(const json& plan) {
  std::string rows;
  int64_t number = 0;
  for (const json& step : plan.at("steps")) {
    const json& measured = step.at("measured_seconds");
    const std::string kernel = step.at("kernel");
    rows += fmt::format(
        "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n",
        number++, escape_xml(first_words(step.at("ops"), 4)), escape_xml(first_words(step.at("parts"), 2)),
        escape_xml(kernel), format_bytes(step.at("bytes").get<uint64_t>()),
        measured.contains(kernel) ? format_duration(measured.at(kernel).get<double>()) : "");
  }
  return fmt::format(
      "<details><summary>{} kernels</summary><div class=\"table\"><table><tr><th "
      "class=\"n\"></th><th>computes</th><th>"
      "part of the model</th><th>kernel</th><th class=\"n\">moves</th><th "
      "class=\"n\">timed</th></tr>\n{}</table></div>"
      "</details>\n",
      number, rows);
}

std::string plan_of(const RunFolder& folder) {
  const json plan = document_in(folder.plan());
  if (!plan.is_object()) return {};
  return "<h2>A training step</h2>\n" + svg_picture(draw_memory(plan), "Memory over a step") +
         kernels_of(plan);
}

std::string options_of(const RunInfo& run) {
  if (!run.config) return {};
  std::string rows;
  const json defaults = to_json(default_config(run.config->model, run.config->task)),
             options = to_json(*run.config);
  for (const auto& [name, value] : options.items()) {
    const std::string text = value.is_string() ? value.get<std::string>()
                             : value.is_null() ? fmt::format("{:g}", run.config->learning_rate())  // of lr
                                               : value.dump();
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_xml(name),
                        value == defaults[name] ? escape_xml(text) : "<b>" + escape_xml(text) + "</b>");
  }
  return fmt::format(
      "<details><summary>Options (bold: not the default)</summary><div "
      "class=\"table\"><table>{}</table></div></details>\n",
      rows);
}

std::string machine_of(const RunStatus& status) {
  return fmt::format(
      "<h2>Machine and options</h2>\n<p>{}{}, {} thread{} of the CPU's kernels, Athanor {}</p>\n",
      escape_xml(status.device), status.device_name.empty() ? "" : ": " + escape_xml(status.device_name),
      status.threads, status.threads == 1 ? "" : "s", escape_xml(status.version));
}

}  // namespace

std::string html_report(const RunFolder& folder) {
  const RunInfo run = read_run_info(folder);
  if (!run.problem.empty())
    throw Error(ErrorCode::format, run.problem, folder.path.string(), "The file was changed: restore it");
  try {
    const json summary = document_in(folder.summary());
    return head_of(run) + figures_of(run, summary) + picture_section(folder.loss_svg(), "Curves") +
           epochs_of(run) + picture_section(folder.confusion_svg(), "Classes") + examples_of(folder) +
           plan_of(folder) + machine_of(run.status) + options_of(run) + "</main></body>\n</html>\n";
  } catch (const json::exception&) {
    throw Error(ErrorCode::format, "a JSON file in the folder is not as the run wrote it",
                folder.path.string(), "Restore it, or remove it");
  }
}

}  // namespace athanor
