// What a first-time user does with the program, on a dataset of a few small pictures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/text.h"
#include "athanor/formats/npy.h"
#include "athanor/graph/precision.h"
#include "athanor/kernels/precision_support.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_program;

class FirstUse : public testing::ProgramTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "work/digits");
    std::filesystem::create_directories(folder_ / "elsewhere");
    for (const char* split : {"train", "test"}) {
      std::vector<double> pixels, labels;
      for (int i = 0; i < 64; ++i) {
        labels.push_back(i % 4);
        for (int pixel = 0; pixel < 64; ++pixel) pixels.push_back((pixel / 16 == i % 4 ? 200 : 10) + i % 7);
      }
      const std::string start = (folder_ / "work/digits" / split).string();
      write_npy(start + "_images.npy", from_doubles(DType::u8, {64, 8, 8}, pixels));
      write_npy(start + "_labels.npy", from_doubles(DType::i64, {64}, labels));
    }
  }

  Outcome run_in(const std::string& where, const Words& words) const {
    return run_program(folder_ / where, words);
  }
  Outcome run(const Words& words) const { return run_in("work", words); }

  static Words training(const Words& more) {
    Words words{"train", "--model",      "mlp", "--data",          "digits",  "--device", "cpu", "--threads",
                "1",     "--batch-size", "16",  "--deterministic", "--quiet", "--out",    "run"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST_F(FirstUse, ExplainFitsItsWidthAndLeavesNothingOut) {
  const Words resnet{"explain",  "--device", "cpu",     "--deterministic", "--model",
                     "resnet18", "--input",  "3,32,32", "--batch-size",    "4"};
  const Words cnn{"explain", "--device", "cpu", "--deterministic", "--model", "cnn"};
  for (Words words : {cnn, resnet}) {
    const std::string off_terminal = run(words).out;
    words.emplace_back("--json");
    const json plan = json::parse(run(words).out);
    words.back() = "--width";
    words.emplace_back();
    for (const size_t width : {50, 80, 120}) {
      words.back() = std::to_string(width);
      const Outcome outcome = run(words);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      for (const std::string& line : split(outcome.out, '\n')) EXPECT_LE(line.size(), width) << line;
      if (width == 120) {
        EXPECT_EQ(outcome.out, off_terminal);
      }
      const std::string text = without_blanks(outcome.out);
      for (const json& step : plan["steps"])
        for (const char* field : {"kernel", "why", "where"})
          EXPECT_THAT(text, HasSubstr(without_blanks(step[field])));
    }
    words.back() = "1000";
    EXPECT_THAT(run(words).out, HasSubstr("FLOPs"));
    words.resize(words.size() - 2);
    set_variable("COLUMNS", "70");
    for (const std::string& line : split(run(words).out, '\n')) EXPECT_LE(line.size(), 70U) << line;
    set_variable("COLUMNS", "no number");
    EXPECT_EQ(run(words).out, off_terminal);
    unsetenv("COLUMNS");
  }
  EXPECT_EQ(run({"explain", "--width", "0"}).exit_code, 2);
}

// Whatever this processor multiplies: no CPU multiplies f16 directly.
TEST_F(FirstUse, CommandsSayWhatAPrecisionCosts) {
  set_variable("COLUMNS", "1000");
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    const std::string name(to_string(precision)), cost = require_precision({}, precision);
    Words explain{"explain", "--model", "mlp", "--device", "cpu", "--precision", name};
    EXPECT_THAT(run(explain).out, HasSubstr("products of " + name + (cost.empty() ? ":\n\n" : ":\n" + cost)));
    explain.emplace_back("--json");
    EXPECT_EQ(json::parse(run(explain).out).value("precision_note", ""), cost);
    Words fit{"fit", "--model", "mlp", "--device", "cpu", "--batch-size", "16", "--precision", name};
    const std::string fits = run(fit).out;
    const std::string said = fmt::format("--precision {}: {}.", name, cost);
    EXPECT_EQ(fits.find(said) != std::string::npos, !cost.empty()) << fits;
    fit.emplace_back("--json");
    EXPECT_EQ(json::parse(run(fit).out).value("precision_note", ""), cost);
    const Words tune{"tune", "--gemm", "64x64x64", "--device", "cpu", "--precision", name};
    EXPECT_THAT(run(tune).out, HasSubstr(cost.empty() ? "):\n\n" : "):\n" + cost + "\n"));
    Words train = training({"--max-steps", "1", "--precision", name});
    std::erase(train, "--quiet");
    std::ranges::replace(train, "run", name);
    const Outcome trained = run(train);
    EXPECT_THAT(trained.out, HasSubstr("loss in f32" + (cost.empty() ? "\n" : "; " + cost))) << trained.err;
    Words sweep = training({"--find-lr", "lr.svg", "--precision", name});
    sweep.erase(std::ranges::find(sweep, "--out"), std::ranges::find(sweep, "run") + 1);
    std::erase(sweep, "--quiet");
    const Outcome swept = run(sweep);
    EXPECT_EQ(swept.out.starts_with(said + "\n"), !cost.empty()) << swept.out << swept.err;
    sweep.emplace_back("--json");
    EXPECT_EQ(json::parse(run(sweep).out).value("precision_note", ""), cost);
  }
}

// A million pictures take 3.1 GB, and their activations a hundred times as much.
TEST_F(FirstUse, ExplainPlansWhatTheMachineCannotHold) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit lower{uint64_t{3} << 30, before.rlim_max};
  setrlimit(RLIMIT_AS, &lower);
  const Outcome outcome =
      run({"explain", "--model", "cnn", "--device", "cpu", "--batch-size", "1000000", "--json"});
  setrlimit(RLIMIT_AS, &before);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json plan = json::parse(outcome.out);
  // Temporaries grow with the batch, parameters do not: the expected memory is scaled from a batch of 1,000.
  const json small = json::parse(run({"explain", "--model", "cnn", "--device", "cpu", "--batch-size", "1000",
                                      "--deterministic", "--json"})
                                     .out);
  EXPECT_NEAR(plan["arena_bytes"].get<double>() / small["arena_bytes"].get<double>(), 1000, 50);
  EXPECT_GT(plan["planned_memory_bytes"], int64_t{100} << 30);
}

TEST_F(FirstUse, DumpsReplaceWhatDumpsWroteAndNothingElse) {
  const auto dump = [&](const char* model) {
    return run({"kernels", "dump", "--model", model, "--batch-size", "8", "--out", "kernels"});
  };
  const auto sources = [&] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "work/kernels"))
      count += entry.path().extension() == ".cl";
    return count;
  };
  ASSERT_EQ(dump("cnn").exit_code, 0);
  const size_t of_cnn = sources();
  write_file_atomically(folder_ / "work/kernels/notes.txt", "mine");
  write_file_atomically(folder_ / "work/kernels/000_0_mine.cl", "mine too");
  const Outcome second = dump("mlp");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const json list = json::parse(read_text_file(folder_ / "work/kernels/launches.json"));
  std::set<std::string> files{"000_0_mine.cl"};
  for (const json& one : list) {
    files.insert(one["file"]);
    const std::string kernel = read_text_file(folder_ / "work/kernels" / one["file"].get<std::string>());
    EXPECT_THAT(kernel, AllOf(HasSubstr("#include \"kernel_language.h\"\n"), Not(HasSubstr("#if"))));
  }
  EXPECT_THAT(read_text_file(folder_ / "work/kernels/kernel_language.h"), HasSubstr("#define KERNEL"));
  EXPECT_EQ(sources(), files.size()) << "of " << of_cnn;
  EXPECT_EQ(read_text_file(folder_ / "work/kernels/notes.txt"), "mine");
  EXPECT_THAT(second.out, HasSubstr("of an older dump"));
  EXPECT_THAT(second.out, HasSubstr("2 files that no dump wrote are kept, such as 000_0_mine.cl"));

  // Nor is a header or a list that the program did not write overwritten.
  std::filesystem::create_directories(folder_ / "work/mine");
  write_file_atomically(folder_ / "work/mine/kernel_language.h", "mine");
  EXPECT_EQ(run({"kernels", "dump", "--model", "mlp", "--out", "mine"}).exit_code, 2);
  EXPECT_EQ(read_text_file(folder_ / "work/mine/kernel_language.h"), "mine");
  write_file_atomically(folder_ / "work/kernels/launches.json", R"([{"file": "notes.txt"}])");
  const Outcome foreign = dump("mlp");
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("launches.json"));
  EXPECT_EQ(read_text_file(folder_ / "work/kernels/launches.json"), R"([{"file": "notes.txt"}])");
  EXPECT_EQ(read_text_file(folder_ / "work/kernels/notes.txt"), "mine");
}

TEST_F(FirstUse, DumpsHaveTheMatrixUnitsOfAnArchitecture) {
  const auto dump = [&](const std::vector<std::string>& more, const char* out) {
    std::vector<std::string> words{"kernels", "dump",        "--model", "mlp",   "--batch-size",
                                   "128",     "--precision", "bf16",    "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto use = [&](const std::string& out, const std::string& instruction) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "work" / out))
      count += read_text_file(entry.path()).find(instruction) != std::string::npos;
    return count;
  };
  const Outcome without = dump({"--target", "cuda"}, "none");
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_THAT(without.out, HasSubstr("None of them uses matrix units"));
  EXPECT_EQ(use("none", "mma.sync"), 0U);
  EXPECT_EQ(dump({"--arch", "sm_86"}, "nvidia").exit_code, 0);
  EXPECT_GE(use("nvidia", "mma.sync"), 3U) << "two products forward, and more of them backward";
  EXPECT_THAT(dump({"--arch", "gfx1100"}, "amd").out, Not(HasSubstr("On gfx1100")));
  EXPECT_GE(use("amd", "__builtin_amdgcn_wmma"), 3U);
  EXPECT_THAT(dump({"--arch", "gfx1030"}, "old").out,
              AllOf(HasSubstr("no matrix units of gfx1030"), HasSubstr("On gfx1030, "),
                    HasSubstr("they compute them in f32")));
}

// A device has separate kernels: forward with log-sum-exp, gradients by queries, and by keys and values.
TEST_F(FirstUse, DumpsHaveThreeKernelsOfAttentionForEachLayer) {
  const Outcome outcome = run({"kernels", "dump", "--model", "gpt2-nano", "--batch-size", "8", "--arch",
                               "gfx1100", "--precision", "bf16", "--out", "kernels"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  size_t count = 0;
  for (const json& one : json::parse(read_text_file(folder_ / "work/kernels/launches.json")))
    count += one["ops"].get<std::string>().find("attention") != std::string::npos;
  constexpr size_t layers = 3;
  EXPECT_EQ(count, 3 * layers);
}

TEST_F(FirstUse, SaysHowLongTheCpusKernelsWereTimed) {
  show_whole_lines();
  const auto train = [&](const std::string& out, const Words& more = {}) {
    Words words{"train", "--model",      "mlp", "--data",      "digits", "--device", "cpu", "--threads",
                "1",     "--batch-size", "16",  "--max-steps", "3",      "--out",    out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    return std::pair(outcome.out, json::parse(read_text_file(folder_ / "work" / out / "summary.json")));
  };
  const auto [first_shown, first] = train("first");
  const int64_t timed = first["tuned_first"];
  ASSERT_GT(timed, 0);
  EXPECT_THAT(first_shown, HasSubstr(fmt::format("{} problem", timed)));
  EXPECT_THAT(first_shown, HasSubstr("timed before plans first ran, in"));
  EXPECT_GT(first["first_tuning_seconds"], 0);
  EXPECT_LE(first["first_tuning_seconds"], first["compile_seconds"]);
  EXPECT_EQ(train("untimed", {"--deterministic"}).second["tuned_first"], 0);
}

TEST_F(FirstUse, RunsGoOnFromAnyFolder) {
  ASSERT_EQ(run(training({"--max-steps", "3"})).exit_code, 0);
  const json config = json::parse(read_text_file(folder_ / "work/run/config.json"));
  EXPECT_TRUE(std::filesystem::path(config["data"].get<std::string>()).is_absolute()) << config["data"];
  const std::string there = (folder_ / "work/run").string();
  const Outcome tested = run_in("elsewhere", {"eval", there, "--device", "cpu"});
  EXPECT_EQ(tested.exit_code, 0) << tested.err;
  const Outcome resumed =
      run_in("elsewhere", {"train", "--resume", "--out", there, "--max-steps", "6", "--quiet"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  // The same data under another path is accepted.
  for (const char* data : {"digits", "./digits/", "../work/digits"}) {
    const Outcome again =
        run({"train", "--resume", "--out", "run", "--data", data, "--max-steps", "7", "--quiet"});
    EXPECT_EQ(again.exit_code, 0) << data << again.err;
  }
  const std::string svg = read_text_file(folder_ / "work/run/loss.svg");
  EXPECT_THAT(svg, HasSubstr("mlp on digits"));
  EXPECT_THAT(svg, HasSubstr("step 7: test accuracy"));
}

TEST_F(FirstUse, LabelsWithGapsAreRefusedBeforeTheRunStarts) {
  std::vector<double> labels;
  for (int i = 0; i < 64; ++i) labels.push_back(1000 * (i % 3));
  write_npy(folder_ / "work/digits/train_labels.npy", from_doubles(DType::i64, {64}, labels));
  const Outcome outcome = run(training({}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("3 have images (0, 1000, 2000)"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("NaN")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "work/run"));
}

}  // namespace
}  // namespace athanor
