// Runs of the program on the real Fashion-MNIST data.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>

#include <array>

#include <nlohmann/json.hpp>
#include <random>

#include "athanor/train/metrics.h"
#include "tests/cli/program_test.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::Program;
using testing::run_program;
using testing::TempFolder;
using Words = std::vector<std::string>;

class Runs : public testing::ProgramTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist") &&
        std::getenv("ATHANOR_DATA") == nullptr)
      GTEST_SKIP() << "Fashion-MNIST is not installed (apt install dataset-fashion-mnist)";
  }

  static Words train(const std::string& out, Words more = {}) {
    // On the CPU, because the device that "auto" finds fastest may change while other tests run.
    Words words{"train", "--model", "mlp", "--device", "cpu", "--batch-size", "64", "--threads",
                "1",     "--seed",  "5",   "--out",    out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Runs, AreSummarised) {
  const Outcome outcome = run(train("run", {"--max-steps", "30", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const json printed = json::parse(outcome.out), stored = json::parse(text("run/summary.json"));
  EXPECT_EQ(printed, stored);
  EXPECT_EQ(stored["device"], "cpu");
  EXPECT_EQ(stored["steps"], 30);
  EXPECT_EQ(stored["epochs"], 0);
  EXPECT_EQ(stored["kernels_off_device"], 0);
  EXPECT_GT(stored["test_accuracy"], 0.3);
  for (const char* field : {"train_loss", "images_per_second", "step_ms_median", "peak_memory_bytes",
                            "planned_memory_bytes", "kernels_total"})
    EXPECT_GT(stored[field], 0) << field;
  EXPECT_EQ(read_metrics(folder_ / "run/metrics.jsonl").size(), 30U);
  const json plan = json::parse(text("run/plan.json"));
  EXPECT_EQ(plan["steps"].size(), stored["kernels_total"]);
  EXPECT_TRUE(plan["kernel_choices"].is_object());
  EXPECT_TRUE(text("run/loss.svg").starts_with("<svg"));

  const Outcome again = run(train("run", {"--max-steps", "30"}));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;
  const Outcome other = run({"train", "--resume", "--out", "run", "--batch-size", "32"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("--batch-size"), std::string::npos) << other.err;
  const Outcome finished = run({"train", "--resume", "--out", "run"});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_NE(finished.out.find("finished"), std::string::npos) << finished.out;
}

TEST_F(Runs, ShowPlainLinesWithoutATerminal) {
  const Outcome outcome = run(train("run", {"--max-steps", "3", "--deterministic"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word :
       {"fashion-mnist", "cpu: ", "asked for with --device cpu", "test images are right", "loss.svg"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  EXPECT_EQ(outcome.out.find('\r'), std::string::npos);
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST_F(Runs, OfOneSeedAreAlikeWhateverTheWorkers) {
  for (const char* workers : {"0", "1", "3"}) {
    const Outcome outcome =
        run(train(workers, {"--max-steps", "25", "--workers", workers, "--deterministic", "--quiet"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(text("0/metrics.jsonl"), text("1/metrics.jsonl"));
  EXPECT_EQ(text("0/metrics.jsonl"), text("3/metrics.jsonl"));
}

TEST_F(Runs, KilledAtAnyMomentGoOnToTheSameNumbers) {
  // --deterministic, because timing could choose different kernels for the two runs.
  const Words options{"--max-steps", "60", "--checkpoint-every", "4", "--deterministic", "--quiet"};
  ASSERT_EQ(run(train("whole", options)).exit_code, 0);
  Words resume = train("parts", options);
  resume.push_back("--resume");
  std::mt19937 random(std::random_device{}());
  for (int64_t lines = 0; lines < 50;) {
    const bool begun = std::filesystem::exists(folder_ / "parts/config.json");
    Program program(folder_.path(), begun ? resume : train("parts", options));
    program.wait_for_lines(folder_ / "parts/metrics.jsonl", lines);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    program.send(SIGKILL);
    const int exit_code = program.wait().exit_code;
    EXPECT_TRUE(exit_code == 128 + SIGKILL || exit_code == 0) << exit_code << text("stderr");
    lines += static_cast<int64_t>(random() % 20);
  }
  const Outcome last = run(resume);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(text("parts/metrics.jsonl"), text("whole/metrics.jsonl"));
  EXPECT_EQ(json::parse(text("parts/summary.json"))["test_loss"],
            json::parse(text("whole/summary.json"))["test_loss"]);
}

TEST_F(Runs, SaveThemselvesOnCtrlC) {
  ASSERT_EQ(run(train("whole", {"--max-steps", "80", "--deterministic", "--quiet"})).exit_code, 0);
  Program program(folder_.path(), train("run", {"--deterministic"}));
  program.wait_for_lines(folder_ / "run/metrics.jsonl", 12);
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("--resume --out run"), std::string::npos) << outcome.err;
  EXPECT_EQ(run({"eval", "run"}).exit_code, 0);
  EXPECT_EQ(run({"train", "--resume", "--out", "run", "--max-steps", "80", "--quiet"}).exit_code, 0);
  const std::string whole = text("whole/metrics.jsonl"), run = text("run/metrics.jsonl");
  EXPECT_TRUE(run == whole || (run.size() > whole.size() && run.starts_with(whole)));
}

TEST_F(Runs, AreWorkedOnByOneProcessAtATime) {
  Program first(folder_.path(), train("run"));
  first.wait_for_lines(folder_ / "run/metrics.jsonl", 3);
  const TempFolder elsewhere;  // for the output of the second program
  const Outcome second = run_program(
      elsewhere.path(), {"train", "--resume", "--out", (folder_ / "run").string(), "--max-steps", "5"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.err.find("another process"), std::string::npos) << second.err;
  first.send(SIGKILL);
  first.wait();
}

TEST_F(Runs, AreTestedAndUsed) {
  ASSERT_EQ(run(train("runs/a", {"--max-steps", "40", "--deterministic", "--quiet"})).exit_code, 0);
  const json summary = json::parse(text("runs/a/summary.json"));
  for (const Words& where :
       {Words{"eval", "runs/a"}, {"eval", "--checkpoint", "runs/a/checkpoint.safetensors"}, {"eval"}}) {
    Words words = where;
    // On the device that trained it: another device, which "auto" may find faster, rounds differently.
    words.insert(words.end(), {"--json", "--device", "cpu"});
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["test_accuracy"], summary["test_accuracy"]);
    EXPECT_EQ(json::parse(outcome.out)["test_loss"], summary["test_loss"]);
  }
  const std::string images = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/image/";
  const Outcome outcome = run({"predict", images + "rgb.png", images + "grey.jpg", "--json", "--top", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json predicted = json::parse(outcome.out);
  ASSERT_EQ(predicted.size(), 2U);
  EXPECT_EQ(predicted[0]["image"], images + "rgb.png");
  ASSERT_EQ(predicted[0]["predictions"].size(), 4U);
  EXPECT_GE(predicted[0]["predictions"][0]["probability"], predicted[0]["predictions"][1]["probability"]);
  EXPECT_TRUE(predicted[0]["predictions"][0]["name"].is_string());
  // The model may stand among the images, as other commands take it.
  for (const Words& words : {Words{"predict", "runs/a", images + "rgb.png"},
                             {"predict", images + "rgb.png", "runs/a/checkpoint.safetensors"}}) {
    const Outcome named = run(words);
    EXPECT_EQ(named.exit_code, 0) << named.err;
    EXPECT_EQ(std::count(named.out.begin(), named.out.end(), '\n'), 1) << named.out;
  }
  const Outcome twice = run({"predict", "runs/a", images + "rgb.png", "--checkpoint", "runs/a"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.err.find("two models are given"), std::string::npos) << twice.err;
  const Outcome alone = run({"predict", "runs/a"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.err.find("athanor predict runs/a FILE"), std::string::npos) << alone.err;
  const Outcome bad = run({"predict", images + "rgb.png", "runs/a/config.json"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(std::count(bad.out.begin(), bad.out.end(), '\n'), 1) << "what could be read: " << bad.out;
  EXPECT_TRUE(bad.out.starts_with(images + "rgb.png")) << bad.out;
  EXPECT_NE(bad.err.find("config.json"), std::string::npos) << bad.err;
  const Outcome missing = run({"predict", "nowhere.png", images + "grey.jpg", "--json"});
  EXPECT_EQ(missing.exit_code, 1);
  const json both = json::parse(missing.out);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_NE(both[0]["error"].get<std::string>().find("nowhere.png"), std::string::npos);
  EXPECT_EQ(both[1]["predictions"].size(), 3U);
}

TEST_F(Runs, AreTestedOnAsManyPicturesAsAreWanted) {
  const Outcome outcome =
      run(train("run", {"--max-steps", "3", "--eval-examples", "128", "--deterministic"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("of 128 test images are right"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("compiling the training step"), std::string::npos) << "said before it is done";

  const Outcome some = run({"eval", "run", "--device", "cpu", "--eval-examples", "200", "--json"});
  ASSERT_EQ(some.exit_code, 0) << some.err;
  EXPECT_EQ(json::parse(some.out)["images"], 200);
  const Outcome said = run({"eval", "run", "--eval-examples", "64"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_NE(said.out.find("on cpu: "), std::string::npos) << "which device: " << said.out;
  for (const char* wrong : {"0", "-1"})
    EXPECT_EQ(run({"eval", "run", "--eval-examples", wrong}).exit_code, 2) << wrong;
}

TEST_F(Runs, SayOnATerminalHowFarAnEvaluationIs) {
  ASSERT_EQ(run(train("run", {"--max-steps", "3", "--eval-examples", "64", "--deterministic", "--quiet"}))
                .exit_code,
            0);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    setenv("ATHANOR_CACHE", (folder_ / "cache").c_str(), 1);
    setenv("TERM", "xterm", 1);
    alarm(250);
    if (chdir(folder_.path().c_str()) == 0)
      execl(ATHANOR_BINARY_DIR "/athanor", "athanor", "eval", "run", "--device", "cpu", nullptr);
    _exit(127);
  }
  ASSERT_GT(child, 0);
  std::string seen;
  std::array<char, 4096> part;
  for (ssize_t count; (count = read(terminal, part.data(), part.size())) > 0;)
    seen.append(part.data(), static_cast<size_t>(count));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  EXPECT_EQ(status, 0);
  EXPECT_NE(seen.find("eval on cpu: compiling"), std::string::npos) << seen;
  EXPECT_NE(seen.find("of 10000 images"), std::string::npos) << seen;
}

TEST_F(Runs, StopWhereNothingCanBeWritten) {
  write_file_atomically(folder_ / "file", "");
  const Outcome in_file = run(train("file/run", {"--max-steps", "2"}));
  EXPECT_EQ(in_file.exit_code, 1);
  EXPECT_NE(in_file.err.find("--out"), std::string::npos) << in_file.err;
  if (geteuid() == 0) return;  // root can write everywhere
  std::filesystem::create_directories(folder_ / "locked");
  chmod((folder_ / "locked").c_str(), 0555);
  const Outcome locked = run(train("locked/run", {"--max-steps", "2"}));
  EXPECT_EQ(locked.exit_code, 1);
  EXPECT_NE(locked.err.find("locked/run"), std::string::npos) << locked.err;
}

TEST_F(Runs, RunWhatExplainShows) {
  ASSERT_EQ(run(train("run", {"--max-steps", "3", "--deterministic", "--quiet"})).exit_code, 0);
  const Outcome outcome = run({"explain", "--model", "mlp", "--device", "cpu", "--batch-size", "64",
                               "--threads", "1", "--deterministic", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json ran = json::parse(text("run/plan.json")), shown = json::parse(outcome.out);
  EXPECT_EQ(shown["planned_memory_bytes"], ran["planned_memory_bytes"]);
  EXPECT_EQ(shown["flops"], ran["flops"]);
  ASSERT_EQ(shown["steps"].size(), ran["steps"].size());
  for (size_t i = 0; i < ran["steps"].size(); ++i)
    for (const char* field : {"ops", "kernel", "parts"})
      EXPECT_EQ(shown["steps"][i][field], ran["steps"][i][field]) << "step " << i;
}

TEST(Explain, GivesThePlan) {
  const TempFolder folder;
  for (const Words& more : {Words{}, {"--inference"}, {"--profile"}}) {
    Words words{"explain", "--model",         "mlp",   "--batch-size", "8", "--threads",
                "1",       "--deterministic", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_program(folder.path(), words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json plan = json::parse(outcome.out);
    EXPECT_GE(plan["steps"].size(), 3U);
    for (const auto& step : plan["steps"]) {
      EXPECT_NE(step["kernel"], "");
      EXPECT_NE(step["why"], "");
      EXPECT_EQ(step.contains("mean_seconds"), !more.empty() && more[0] == "--profile");
    }
  }
  const Outcome table =
      run_program(folder.path(), {"explain", "--model", "mlp", "--batch-size", "8", "--deterministic"});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.out.find("kernel"), std::string::npos);
  EXPECT_NE(table.out.find("planned"), std::string::npos);
}

}  // namespace
}  // namespace athanor
