// athanor doctor
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/doctor_fix.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/last_words.h"
#include "athanor/cli/recorded.h"
#include "athanor/cli/terminal.h"
#include "athanor/doctor/bundle.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/records.h"
#include "athanor/doctor/report.h"
#include "athanor/doctor/self_test.h"
#include "athanor/kernels/cache.h"

namespace athanor::cli {
namespace {

using namespace doctor;

struct DoctorOptions {
  std::string root, language, plan, form, tried, file, data, vendor, device;
  std::vector<std::string> only;
  bool json = false, list = false, fix = false, dry_run = false, yes = false, self_test = false;
};

Style style_of(const DoctorOptions& options) {
  Style style;
  const Screen screen = screen_of_stdout();
  style.color = screen.color;
  style.unicode = screen.unicode;
  style.columns = report_columns();
  std::string locale = options.language;
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
    if (const char* value = std::getenv(name); locale.empty() && value != nullptr) locale = value;
  style.language = language_of_locale(locale);
  return style;
}

std::set<std::string> ids_of(const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const Check& check : checks()) known.push_back(check.id);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::usage, fmt::format("there is no check '{}'", name), "--only",
                  nearest(name, known).empty() ? "See athanor doctor --list" : nearest_hint(name, known));
  return {names.begin(), names.end()};
}

int plan(const DoctorOptions& options, const Facts& facts, const Style& style) {
  const InstallPlan made = make_plan(facts, options.plan, {options.vendor, options.device});
  if (!options.form.empty()) {
    try {
      std::cout << plan_as(made, options.form);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::value) throw;
      std::cerr << "athanor: error: " << error.what() << '\n';
      return 1;
    }
    return 0;
  }
  const int64_t now = facts.machine().now();
  if (options.json) {
    auto json = plan_json(made, style.language);
    json["data"] = data_json(now);
    std::cout << json.dump() << '\n';
  } else {
    std::cout << plan_text(made, style.language, style.columns)
              << wrapped(data_text(now, style.language), style.columns, 0) << '\n';
  }
  return made.broken() == nullptr ? 0 : 1;
}

// Records whether a fix that somebody tried by hand has helped: doctor learns from this. A check that holds
// shows that only if it was seen to fail on this kind of machine: without its device, and if nothing was
// wrong, every fix would have "worked". A check that another cause keeps from holding shows nothing.
void note_outcome(const DoctorOptions& options, const Diagnosis& diagnosis, Records& records) {
  if (options.only.size() != 1)
    throw Error(ErrorCode::usage, "which check was it for?", "--tried", "Name it: --only CHECK --tried FIX");
  const Result* result = diagnosis.find(options.only.front());
  const auto& fixes = result->check->fixes;
  std::vector<std::string> names;
  for (const Fix& fix : fixes) names.push_back(fix.id);
  if (std::ranges::find(names, options.tried) == names.end())
    throw Error(ErrorCode::usage,
                fmt::format("the check {} has no fix '{}'", result->check->id, options.tried), "--tried",
                names.empty() ? "It has none" : fmt::format("It has: {}", join(names)));
  const bool passes = result->verdict == Verdict::ok ||
                      (result->verdict == Verdict::skipped && result->finding.evidence.empty());
  const bool fails = result->verdict == Verdict::problem || result->verdict == Verdict::warning;
  if (fails || (passes && records.is_open(diagnosis.kind, result->check->id))) {
    records.add(
        {seconds_now(), diagnosis.kind, passes ? "worked" : "failed", result->check->id, options.tried});
    return;
  }
  std::cerr << "athanor: not recorded whether " << options.tried << " helped: "
            << (passes ? "nothing is wrong, and the last diagnosis here found nothing wrong either"
                       : "something else keeps the check from passing, or its files cannot be read")
            << '\n';
}

int diagnose_machine(const DoctorOptions& options, const Machine& machine, const Style& style) {
  KernelCache::instance().leave_damaged();  // the report names it, and --fix moves it
  Facts facts(machine);
  const auto only = ids_of(options.only);
  if (options.self_test || only.contains("device.self_test"))
    facts.set_self_test([] {
      Doing doing("examining", Doing::Elsewhere::now_and_then);  // minutes, if kernels are compiled
      return device_self_test(
          [&](const std::string& device, const std::string& what) { doing.say(device, what); });
    });
  facts.set_examined(remembered_examinations);
  const Diagnosis diagnosis = diagnose(checks(), facts, only);
  Records records(Records::usual_file(), machine.live());
  const Record record = [&](const Check& check, Offer& offer) {
    records.score(diagnosis.kind, check, offer);
  };
  if (!options.tried.empty()) note_outcome(options, diagnosis, records);
  records.add(diagnosis, seconds_now());
  if (options.fix) {
    const FixOptions how{options.dry_run, options.yes};
    return fix_problems(diagnosis, facts, records, style, how);
  }
  if (options.json)
    std::cout << report_json(diagnosis, facts, style.language, record).dump() << '\n';
  else
    std::cout << report_text(diagnosis, facts, style, record);
  return diagnosis.well() ? 0 : 1;
}

int run(const DoctorOptions& options) {
  const Style style = style_of(options);
  if (options.list) {
    if (options.json)
      std::cout << list_json(checks(), style.language).dump() << '\n';
    else
      std::cout << list_text(checks(), style.language, style.columns);
    return 0;
  }
  if (!options.tried.empty() && !options.root.empty())
    throw Error(ErrorCode::usage, "what was tried on another machine is not recorded on this one", "--tried",
                "Run it on that machine, without --root");
  if (options.self_test && !options.root.empty())
    throw Error(ErrorCode::usage, "a recorded machine's devices cannot compute here", "--self-test",
                "Run it on that machine, without --root");
  if ((options.yes || options.dry_run) && !options.fix)
    throw Error(ErrorCode::usage, "this is how --fix works", options.yes ? "--yes" : "--dry-run",
                "Add --fix");
  const Machine machine = machine_at(options.root);
  if (!options.form.empty() && options.plan.empty())
    throw Error(ErrorCode::usage, "--as is the form of a plan", "--as",
                "Add the goal: --plan pytorch --as script");
  if (options.plan.empty() && !(options.vendor.empty() && options.device.empty()))
    throw Error(ErrorCode::usage, "--vendor and --device choose the GPU of a plan",
                options.vendor.empty() ? "--device" : "--vendor",
                "Add the goal: --plan pytorch --vendor amd");
  if (!options.plan.empty()) return plan(options, Facts(machine), style);
  return diagnose_machine(options, machine, style);
}

int history(const DoctorOptions& options) {
  const Style style = style_of(options);
  const auto events = Records(Records::usual_file()).history();
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const Records::Event& event : events)
      all.push_back({{"time", event.time},
                     {"machine", event.kind},
                     {"event", event.what},
                     {"check", event.check},
                     {"fix", event.fix}});
    std::cout << nlohmann::ordered_json{{"schema", 1}, {"events", all}}.dump() << '\n';
    return 0;
  }
  if (events.empty()) std::cout << words("no_history", style.language) << '\n';
  for (const Records::Event& event : events) {
    const std::string word = words(event.what == "found" ? "diagnosed" : event.what, style.language);
    std::cout << fmt::format("{}  {:<14} {}{}   ({})\n", date_text(event.time), word, event.check,
                             event.fix.empty() ? "" : " / " + event.fix, event.kind);
  }
  return 0;
}

int export_bundle(const DoctorOptions& options) {
  const Machine machine = machine_at(options.root);
  const Facts facts(machine);
  write_file_atomically(options.file, make_bundle(diagnose(checks(), facts), facts));
  std::cout << wrapped(words("exported", style_of(options).language, {{"path", options.file}}),
                       style_of(options).columns, 0)
            << '\n';
  return 0;
}

// An error in the named file is an error of the command line.
void use_data(const std::string& file) {
  try {
    Compatibility::use(file);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, "--data: " + error.problem(), error.where(), error.hint());
  }
}

// Doctor's exit codes: 2 for a wrong command line, 3 if doctor itself failed.
int guarded(int (*what)(const DoctorOptions&), const DoctorOptions& options) {
  try {
    if (!options.data.empty()) use_data(options.data);
    return what(options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage) throw;
    complain(error);
  } catch (const std::exception& error) {
    complain(error);
  }
  return 3;
}

}  // namespace

void add_doctor(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Find what keeps devices and frameworks from working on this machine, and how to fix it");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->json, "print it as JSON");
  command->add_option("--only", options->only, "run only these checks, and those that they need")
      ->type_name("ID");
  command->add_flag("--list", options->list, "list the checks");
  command->add_flag("--fix", options->fix, "fix what is in your own files; print commands for the rest");
  command->add_flag("--dry-run", options->dry_run, "with --fix: only show what it would do");
  command->add_flag("--yes", options->yes, "with --fix: do not ask");
  command->add_option("--tried", options->tried, "with --only: record whether this fix helped")
      ->type_name("FIX");
  command->add_flag("--self-test", options->self_test, "compute on every device and compare with the CPU");
  suggest(
      command->add_option("--plan", options->plan, "what to install: pytorch, tensorflow, jax or athanor"),
      {"pytorch", "tensorflow", "jax", "athanor"})
      ->option_text("GOAL");
  suggest(command->add_option("--vendor", options->vendor, "with --plan: for GPUs of amd, nvidia or intel"),
          {"amd", "nvidia", "intel"})
      ->option_text("NAME");
  command
      ->add_option("--device", options->device,
                   "with --plan: for this GPU (its number, address or name), or cpu")
      ->type_name("NAME");
  suggest(command->add_option("--as", options->form, "the plan as script, dockerfile or conda"),
          {"script", "dockerfile", "conda"})
      ->option_text("FORM");
  command->add_option("--root", options->root, "a folder with a copy of another machine's files")
      ->type_name("DIR");
  command
      ->add_option(
          "--data", options->data,
          "newer data on which versions work together (default: the built-in data/compatibility.toml)")
      ->type_name("FILE");
  const auto speak = [options](CLI::App* app) {
    app->add_option("--lang", options->language, "en or zh (default: from the locale)")
        ->check(CLI::IsMember({"en", "zh"}))
        ->option_text("LANG");
  };
  speak(command);
  command->footer("Exit codes: 0 no problems, 1 problems, 2 wrong command line, 3 doctor itself failed.");
  command->require_subcommand(0, 1);
  CLI::App* past = command->add_subcommand("history", "List what was found and tried, newest first");
  past->add_flag("--json", options->json, "print it as JSON");
  speak(past);
  past->callback([options, &exit_code] { exit_code = guarded(history, *options); });
  CLI::App* bundle =
      command->add_subcommand("export", "Write a redacted description of this machine for a bug report");
  bundle->add_option("FILE", options->file, "a new file")->required();
  bundle->add_option("--root", options->root, "a folder with a copy of another machine's files")
      ->type_name("DIR");
  speak(bundle);
  bundle->callback([options, &exit_code] { exit_code = guarded(export_bundle, *options); });
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = guarded(run, *options);
  });
}

}  // namespace athanor::cli
