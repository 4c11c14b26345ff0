// The config.toml of a run trains another like it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/base/file.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ConfigFileOfRun : public testing::ProgramTest {
 protected:
  void SetUp() override {
    show_whole_lines();
    std::string table = "a,b,label\n";
    for (int i = 0; i < 64; ++i) table += fmt::format("{},{},{}\n", i, i * 7 % 11, i % 3);
    write_file_atomically(folder_ / "table.csv", table);
  }
  testing::Outcome train(const std::string& out, Words options) const {
    options.insert(options.begin(), "train");
    options.insert(options.end(), {"--out", out, "--quiet"});
    return run(options);
  }
  testing::Outcome train_new(const std::string& out, Words options) const {
    options.insert(options.end(), {"--data", "table.csv", "--model", "mlp", "--device", "cpu", "--batch-size",
                                   "16", "--max-steps", "6"});
    return train(out, options);
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    std::istringstream lines(text(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const json step = json::parse(line); step.contains("loss")) losses.push_back(step["loss"]);
    return losses;
  }
  json options_of(const std::string& run) const { return json::parse(text(run + "/config.json")); }
};

TEST_F(ConfigFileOfRun, TrainsAnotherLikeIt) {
  ASSERT_EQ(train_new("plain", {"--threads", "1"}).exit_code, 0);
  EXPECT_EQ(options_of("plain")["tune"], "quick");
  for (const Words& fixed : {Words{"--deterministic", "--threads", "1"}, {"--choices", "plain"}}) {
    SCOPED_TRACE(fixed[0]);
    const std::string first = "run" + fixed[0], second = "again" + fixed[0];
    const testing::Outcome made = train_new(first, fixed);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(options_of(first)["tune"], "off");
    EXPECT_THAT(text(first + "/config.toml"), HasSubstr("tune = \"off\""));
    const testing::Outcome repeated = train(second, {"--config", first + "/config.toml"});
    ASSERT_EQ(repeated.exit_code, 0) << repeated.err;
    EXPECT_EQ(options_of(second), options_of(first));
    EXPECT_EQ(losses(first).size(), 6U);
    EXPECT_EQ(losses(second), losses(first));
  }
}

TEST_F(ConfigFileOfRun, GivesWayToTheCommandLine) {
  ASSERT_EQ(train_new("plain", {}).exit_code, 0);
  const testing::Outcome fixed = train("fixed", {"--config", "plain/config.toml", "--deterministic"});
  ASSERT_EQ(fixed.exit_code, 0) << fixed.err;
  EXPECT_TRUE(options_of("fixed")["deterministic"]);
  const testing::Outcome repeated =
      train("repeated", {"--config", "fixed/config.toml", "--choices", "plain"});
  ASSERT_EQ(repeated.exit_code, 0) << repeated.err;
  EXPECT_FALSE(options_of("repeated")["deterministic"]);

  const testing::Outcome both =
      train("both", {"--config", "plain/config.toml", "--deterministic", "--tune", "full"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--deterministic chooses kernels without timing them"));

  for (const std::string begun : {"fixed", "repeated"}) {
    const testing::Outcome resumed = train(begun, {"--resume", "--tune", "full"});
    EXPECT_EQ(resumed.exit_code, 2);
    EXPECT_THAT(resumed.err, AllOf(HasSubstr(begun == "fixed" ? "--deterministic" : "--choices"),
                                   HasSubstr("Leave out --tune")));
    EXPECT_EQ(train(begun, {"--resume", "--tune", "off"}).exit_code, 0);
  }
}

}  // namespace
}  // namespace athanor
