// athanor runs: how runs are listed, compared, drawn and removed.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "tests/cli/program_test.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class RunsProgram : public testing::ProgramTest {
 protected:
  RunsProgram() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "one two three, four five.\n";
    write_file_atomically(folder_ / "text.txt", text);
  }

  testing::Outcome train(const std::string& name, const Words& more = {}) const {
    Words words{"train", "--model",  "gpt2-nano",   "--data",   "text.txt", "--context", "16", "--batch-size",
                "2",     "--epochs", "1",           "--sample", "0",        "--threads", "1",  "--device",
                "cpu",   "--out",    "runs/" + name};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  json listed() const {
    const auto outcome = run({"runs", "ls", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::string state_of(const std::string& name) const {
    for (const json& one : listed())
      if (one["run"] == "runs/" + name) return one["state"];
    return "not listed";
  }
};

TEST_F(RunsProgram, ListsComparesDrawsAndRemoves) {
  EXPECT_THAT(run({"runs", "ls"}).out, HasSubstr("no runs here"));
  ASSERT_EQ(train("a", {"--max-steps", "8", "--quiet"}).exit_code, 0);
  ASSERT_EQ(train("b", {"--max-steps", "4", "--lr", "0.01", "--quiet"}).exit_code, 0);

  const testing::Outcome table = run({"runs", "ls"});
  EXPECT_THAT(table.out, HasSubstr("bits per byte")) << table.err;
  EXPECT_THAT(table.out, HasSubstr("finished"));
  const json facts = listed();
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0]["run"], "runs/a");
  EXPECT_EQ(facts[0]["steps"], 8);
  EXPECT_EQ(facts[0]["best_loss"], json::parse(text("runs/a/summary.json"))["test_loss"]);

  const json both = json::parse(run({"runs", "compare", "runs/a", "runs/b", "--json"}).out);
  EXPECT_EQ(both["options"].size(), 2U) << "only what differs: " << both.dump();
  EXPECT_EQ(both["options"]["lr"], (std::vector<std::string>{"0.003", "0.01"}));
  EXPECT_EQ(both["results"]["steps"], (std::vector<std::string>{"8", "4"}));
  EXPECT_THAT(run({"runs", "compare", "runs/a", "runs/b"}).out, HasSubstr("perplexity"));

  ASSERT_EQ(run({"runs", "plot", "runs/a", "runs/b", "--out", "both.svg"}).exit_code, 0);
  EXPECT_THAT(text("both.svg"), HasSubstr("<title>gpt2-nano on text.txt</title>"));
  EXPECT_THAT(text("both.svg"), HasSubstr(">runs/b</text>"));
  EXPECT_THAT(text("both.svg"), HasSubstr("curve s1"));
  EXPECT_THAT(text("both.svg"), HasSubstr("runs/b, step 4: test")) << "the test after its last step";

  const testing::Outcome mistyped = run({"runs", "compare", "runs/a", "runs/bb"});
  EXPECT_EQ(mistyped.exit_code, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("Did you mean 'runs/b'"));

  const testing::Outcome unasked = run({"runs", "rm", "runs/a"});
  EXPECT_EQ(unasked.exit_code, 2);
  EXPECT_THAT(unasked.err, HasSubstr("--yes"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/a/config.json"));
  EXPECT_EQ(run({"runs", "rm", "runs/a", "--yes"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs/a"));
  EXPECT_EQ(state_of("b"), "finished");
}

TEST_F(RunsProgram, RemovesNothingThatNoRunWrote) {
  ASSERT_EQ(train("a", {"--max-steps", "2", "--quiet"}).exit_code, 0);
  write_file_atomically(folder_ / "runs/a/notes.txt", "mine");
  fs::create_directories(folder_ / "runs/a/metrics.jsonl.d");
  fs::create_directory_symlink("a", folder_ / "runs/link");
  fs::create_directories(folder_ / "pictures");
  write_file_atomically(folder_ / "pictures/summary.json", "{}");
  for (const char* path : {"runs", "pictures", "runs/link", "text.txt", "none"}) {
    const testing::Outcome refused = run({"runs", "rm", path, "--yes"});
    EXPECT_EQ(refused.exit_code, 2) << path;
  }
  // If one folder may not be removed, none is.
  EXPECT_EQ(run({"runs", "rm", "runs/a", "pictures", "--yes"}).exit_code, 2);
  EXPECT_TRUE(fs::exists(folder_ / "runs/a/summary.json"));
  EXPECT_TRUE(fs::exists(folder_ / "pictures/summary.json"));

  const testing::Outcome removed = run({"runs", "rm", "runs/a", "--yes"});
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_THAT(removed.out, HasSubstr("metrics.jsonl.d, notes.txt"));
  EXPECT_EQ(text("runs/a/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "runs/a/checkpoint.safetensors"));
}

TEST_F(RunsProgram, SaysHowRunsEnded) {
  const Words words{"train", "--model",  "gpt2-nano", "--data", "text.txt", "--batch-size",
                    "4",     "--epochs", "100",       "--out",  "runs/a",   "--threads",
                    "1",     "--device", "cpu",       "--quiet"};
  for (const auto& [signal, state] : {std::pair(SIGTERM, "stopped"), {SIGKILL, "crashed"}}) {
    fs::remove_all(folder_ / "runs");
    testing::Program program(folder_.path(), words);
    program.wait_for_lines(folder_ / "runs/a/metrics.jsonl", 3);
    EXPECT_EQ(state_of("a"), "running");
    EXPECT_EQ(run({"runs", "rm", "runs/a", "--yes"}).exit_code, 2) << "a process is at work on it";
    program.send(signal);
    const testing::Outcome ended = program.wait();
    EXPECT_EQ(ended.exit_code, 128 + signal) << ended.err;
    EXPECT_EQ(state_of("a"), state) << ended.err;
  }
  const testing::Outcome failed = train("nan", {"--lr", "1e30", "--clip-norm", "0", "--quiet"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(state_of("nan"), "failed");
  EXPECT_THAT(run({"runs", "ls"}).out, HasSubstr("the loss of step"));
}

TEST_F(RunsProgram, ReportsInOneFile) {
  fs::create_directories(folder_ / "data");
  testing::write_pictures(folder_ / "data", "train", 64);
  testing::write_pictures(folder_ / "data", "test", 32);
  ASSERT_EQ(run({"train", "--model", "mlp", "--data", "data", "--epochs", "2", "--batch-size", "8",
                 "--threads", "1", "--device", "cpu", "--quiet", "--out", "runs/a"})
                .exit_code,
            0);
  const testing::Outcome reported = run({"runs", "report", "runs/a"});
  ASSERT_EQ(reported.exit_code, 0) << reported.err;
  EXPECT_THAT(reported.out, HasSubstr("runs/a/report.html"));
  const std::string html = text("runs/a/report.html");
  for (const char* part : {"mlp on data", "finished", "Curves", "Classes", "Examples that are right",
                           "A training step", "batch_size</td><td><b>8</b>", "<td>lr</td><td>0.1<",
                           "data:image/png;base64,iVBOR", "prefers-color-scheme: dark"})
    EXPECT_THAT(html, HasSubstr(part));
  // The page is self-contained: everything that it loads is inside.
  for (const char* attribute : {"src=\"", "href=\""})
    for (size_t at = html.find(attribute); at != std::string::npos; at = html.find(attribute, at + 1))
      EXPECT_EQ(html.substr(at + std::string(attribute).size(), 5), "data:");
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);

  ASSERT_EQ(train("b", {"--quiet"}).exit_code, 0);
  ASSERT_EQ(run({"runs", "report", "runs/b", "--out", "b.html"}).exit_code, 0);
  EXPECT_THAT(text("b.html"), HasSubstr("perplexity"));
  EXPECT_THAT(text("b.html"), ::testing::Not(HasSubstr("of test images")));
}

TEST_F(RunsProgram, DamagedFilesAreSaid) {
  ASSERT_EQ(train("a", {"--max-steps", "2", "--quiet"}).exit_code, 0);
  for (const auto& [file, content] :
       {std::pair("config.json", "{"), {"state.json", "[1]"}, {"state.json", "{\"state\": 3}"}}) {
    write_file_atomically(folder_ / "runs/a" / file, content);
    const testing::Outcome listed = run({"runs", "ls"});
    EXPECT_EQ(listed.exit_code, 0) << file << listed.err;
    EXPECT_THAT(listed.out, HasSubstr("runs/a"));
  }
}

}  // namespace
}  // namespace athanor
