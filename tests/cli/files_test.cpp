// Every option that takes a file is given wrong ones: the program soon ends with one error that names it.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <fstream>

#include "tests/cli/program_test.h"

namespace athanor::testing {
namespace {

using Words = std::vector<std::string>;

// "@" in `words` is replaced by the file's name.
struct FileOption {
  Words words;
  std::string good;         // a valid file; bad ones get a name with the same ending
  bool any_length = false;  // the first half of the file is valid too, and so is an empty file
};

class Files : public ProgramTest {
 protected:
  void SetUp() override {
    // Root can read every file. Programs started after this cannot.
    for (const int power : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
      prctl(PR_CAPBSET_DROP, power);
      locked_ = geteuid() != 0 || prctl(PR_CAPBSET_READ, power) == 0;
    }
    std::string table = "a,b,c\n", text;
    for (int i = 0; i < 40; ++i)
      table += std::to_string(i) + "," + std::to_string(i * i) + (i % 2 ? ",x\n" : ",y\n");
    for (int i = 0; i < 200; ++i) text += "one two three\n";
    write("good.csv", table);
    write("good.txt", text);
    std::filesystem::create_directory(folder_ / "folder");
    const Outcome trained = run({"train", "--model", "mlp", "--data", "good.csv", "--max-steps", "1",
                                 "--device", "cpu", "--batch-size", "8", "--out", "run", "--quiet"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    std::filesystem::copy_file(folder_ / "run/checkpoint.safetensors", folder_ / "good.safetensors");
    std::filesystem::copy_file(folder_ / "run/metrics.jsonl", folder_ / "good.jsonl");
    std::filesystem::copy_file(ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/image/grey.png", folder_ / "good.png");
    std::filesystem::copy_file(ATHANOR_SOURCE_DIR "/data/compatibility.toml", folder_ / "good.toml");
    write("good.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
    write("good.so", "no library");
    ASSERT_EQ(run({"cache", "export", "good.db"}).exit_code, 0);
  }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  Outcome run_with(const FileOption& option, const std::string& file) const {
    Words words = option.words;
    std::ranges::replace(words, "@", file);
    return run(words);
  }

  void expect_one_error(const FileOption& option, const std::string& file, const Words& one_of) const {
    const Outcome outcome = run_with(option, file);
    const std::string shown = ::testing::PrintToString(option.words) + " with " + file + ": " + outcome.err;
    EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << outcome.exit_code << " of " << shown;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_TRUE(outcome.err.starts_with("athanor: error: ")) << shown;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << shown;
    EXPECT_NE(outcome.err.find(file.starts_with("./") ? file.substr(2) : file), std::string::npos) << shown;
    EXPECT_LT(outcome.err.find("). "), outcome.err.size() - 5) << "what to do, in " << shown;
    EXPECT_TRUE(one_of.empty() || std::ranges::any_of(one_of,
                                                      [&](const std::string& words) {
                                                        return outcome.err.find(words) != std::string::npos;
                                                      }))
        << shown;
    EXPECT_LT(outcome.cpu_seconds, 20) << shown;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "new")) << shown;
  }

  void expect_errors(const FileOption& option) {
    const std::string end = std::filesystem::path(option.good).extension().string();
    expect_one_error(option, "./nowhere/missing" + end,
                     {"No such file", "does not exist", "there is no", "not the folder"});
    expect_one_error(option, "./folder", {"folder"});
    for (const char* device : {"/dev/zero", "/dev/full"})
      expect_one_error(option, device,
                       {"device", "neither a folder nor a file", "no run", "not a folder", "not the folder"});
    if (locked_) {
      std::filesystem::copy_file(folder_ / option.good, folder_ / ("locked" + end));
      std::filesystem::permissions(folder_ / ("locked" + end), std::filesystem::perms::none);
      expect_one_error(option, "./locked" + end, {"ermission", "no run", "not a folder", "not the folder"});
      std::filesystem::remove(folder_ / ("locked" + end));
    }
    if (option.any_length) return;
    write("empty" + end, "");
    expect_one_error(option, "./empty" + end, {});
    const std::string whole = text(option.good);
    write("half" + end, whole.substr(0, whole.size() / 2));
    expect_one_error(option, "./half" + end, {});
  }

  bool locked_ = false;
};

TEST_F(Files, ThatTrainingReads) {
  const auto train = [](const Words& more) {
    Words words{"train", "--max-steps", "1", "--device", "cpu", "--batch-size", "8", "--out", "new"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const FileOption& option : std::vector<FileOption>{
           {train({"--model", "mlp", "--data", "good.csv", "--init", "@"}), "good.safetensors"},
           {train({"--model", "mlp", "--data", "good.csv", "--choices", "@"}), "good.jsonl"},
           {train({"--config", "@"}), "good.toml", true},
           {train({"--model", "mlp", "--data", "@"}), "good.csv", true},
           {train({"--model", "mlp", "--data", "@"}), "good.safetensors"},
           {train({"--model", "gpt2-nano", "--data", "@"}), "good.txt", true},
           {train({"--model", "gpt2-nano", "--data", "good.txt", "--tokenizer", "@"}), "good.json"},
           {train({"--model", "@", "--data", "good.csv"}), "good.so"},
           {{"train", "--resume", "--out", "@"}, "good.txt"}}) {
    expect_errors(option);
  }
}

TEST_F(Files, ThatTrainedModelsAreUsedWith) {
  for (const FileOption& option : std::vector<FileOption>{
           {{"eval", "@", "--device", "cpu"}, "good.safetensors"},
           {{"eval", "run", "--device", "cpu", "--data", "@"}, "good.csv", true},
           {{"predict", "@", "--checkpoint", "run", "--device", "cpu"}, "good.csv", true},
           {{"predict", "good.csv", "--checkpoint", "@", "--device", "cpu"}, "good.safetensors"},
           {{"sample", "@", "--device", "cpu"}, "good.safetensors"},
           {{"runs", "report", "@"}, "good.txt"},
           {{"runs", "compare", "run", "@"}, "good.txt"},
           {{"runs", "plot", "@"}, "good.txt"},
           {{"runs", "rm", "@"}, "good.txt"}}) {
    expect_errors(option);
  }
}

TEST_F(Files, ThatOtherCommandsRead) {
  for (const FileOption& option : std::vector<FileOption>{
           {{"explain", "--model", "@", "--device", "cpu"}, "good.so"},
           {{"explain", "--model", "mlp", "--device", "cpu", "--data", "@"}, "good.safetensors"},
           {{"fit", "--model", "@", "--device", "cpu"}, "good.so"},
           {{"tune", "--model", "@", "--device", "cpu"}, "good.so"},
           {{"kernels", "dump", "--model", "@", "--arch", "gfx1100", "--out", "new"}, "good.so"},
           {{"data", "@"}, "good.csv", true},
           {{"data", "good.txt", "--tokenizer", "@"}, "good.json"},
           {{"cache", "import", "@"}, "good.db"},
           {{"detect", "--root", "@"}, "good.txt"},
           {{"doctor", "--root", "@"}, "good.txt"},
           {{"doctor", "--list", "--data", "@"}, "good.toml"}}) {
    expect_errors(option);
  }
  expect_one_error({{"cache", "export", "@"}, ""}, "./folder", {"Is a directory"});
  expect_one_error({{"cache", "export", "@"}, ""}, "./nowhere/cache.db", {"does not exist"});
  expect_one_error({{"cache", "export", "@"}, ""}, "/dev/full", {"there already"});
}

// The file is tried before the work, not after it.
TEST_F(Files, ThatAreWrittenAtTheEndAreTriedFirst) {
  const Words train{"train", "--model", "mlp", "--data", "good.csv", "--device", "cpu", "--batch-size", "8"};
  const auto with = [&](const Words& more) {
    Words words = train;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const FileOption& option :
       std::vector<FileOption>{{with({"--max-steps", "1", "--out", "new", "--trace", "@"}), ""},
                               {with({"--find-lr", "@"}), ""},
                               {{"eval", "run", "--device", "cpu", "--confusion", "@"}, ""},
                               {{"fit", "--model", "mlp", "--device", "cpu", "--svg", "@"}, ""}}) {
    expect_one_error(option, "./folder", {"Is a directory"});
    expect_one_error(option, "./nowhere/file.svg", {"does not exist"});
    if (!locked_) continue;
    const auto locked = folder_ / "locked";
    std::filesystem::create_directories(locked);
    std::filesystem::permissions(locked, std::filesystem::perms::owner_read);
    expect_one_error(option, "./locked/file.svg", {"ermission"});
    std::filesystem::permissions(locked, std::filesystem::perms::owner_all);
  }
  EXPECT_EQ(run(with({"--max-steps", "1", "--out", "new", "--quiet", "--trace", "trace.json"})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "trace.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "trace.json.tmp"));
}

}  // namespace
}  // namespace athanor::testing
