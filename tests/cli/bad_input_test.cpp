// One clear message and the right exit code for every kind of mistake.
#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/formats/image.h"
#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::Outcome;
using testing::run_program;
using testing::TempFolder;

using Words = std::vector<std::string>;

struct Mistake {
  Words arguments;
  int exit_code;
  Words says;
};

void expect_complaint(const TempFolder& folder, const Mistake& mistake) {
  const Outcome outcome = run_program(folder.path(), mistake.arguments);
  const std::string shown = ::testing::PrintToString(mistake.arguments) + ": " + outcome.err;
  EXPECT_EQ(outcome.exit_code, mistake.exit_code) << shown;
  EXPECT_EQ(outcome.out, "") << shown;
  EXPECT_TRUE(outcome.err.starts_with("athanor: error: ")) << shown;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << shown;
  for (const std::string& word : mistake.says)
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "'" << word << "' in " << shown;
  EXPECT_FALSE(std::filesystem::exists(folder / "run")) << shown;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << shown;
}

TEST(BadInput, InTheCommandLineExitsWithTwo) {
  const TempFolder folder;
  const std::vector<Mistake> mistakes{
      {{"trian"}, 2, {"no command 'trian'", "'train'"}},
      {{"train", "--ephocs", "3"}, 2, {"--ephocs", "'--epochs'", "athanor train --help"}},
      {{"train", "--batchsize=3"}, 2, {"'--batch-size'"}},
      {{"train", "extra"}, 2, {"'extra'"}},
      {{"train", "--epochs"}, 2, {"--epochs"}},
      {{"train", "--epochs", "many"}, 2, {"--epochs", "'many'"}},
      {{"train", "--epochs", "-1"}, 2, {"--epochs", "-1"}},
      {{"train", "--epochs", "0"}, 2, {"--epochs", "0"}},
      {{"train", "--batch-size", "0"}, 2, {"--batch-size", "0"}},
      {{"train", "--batch-size", "1.5"}, 2, {"--batch-size", "1.5"}},
      {{"train", "--batch-size", "99999999999999999999"}, 2, {"--batch-size"}},
      {{"train", "--max-steps", "0"}, 2, {"--max-steps"}},
      {{"train", "--max-steps", "3", "--max-steps", "4"}, 2, {"--max-steps is given more than once"}},
      {{"train", "--seed", "-1"}, 2, {"--seed", "-1"}},
      {{"train", "--lr", "nan"}, 2, {"--lr", "nan"}},
      {{"train", "--lr", "inf"}, 2, {"--lr", "inf"}},
      {{"train", "--lr", "-0.1"}, 2, {"--lr", "-0.1"}},
      {{"train", "--lr", "0"}, 2, {"--lr"}},
      {{"train", "--threads", "0"}, 2, {"--threads"}},
      {{"train", "--threads", "1000000"}, 2, {"--threads", "1000000"}},
      {{"train", "--workers", "-1"}, 2, {"--workers"}},
      {{"train", "--momentum", "1.5"}, 2, {"--momentum"}},
      {{"train", "--checkpoint-every", "soon"}, 2, {"--checkpoint-every", "'soon'"}},
      {{"train", "--model", "resnet"}, 2, {"--model", "'resnet'", "resnet18"}},
      {{"train", "--optimizer", "adma"}, 2, {"--optimizer", "'adam'"}},
      {{"train", "--optimizer", "adamW"}, 2, {"--optimizer", "Did you mean 'adamw'"}},
      {{"train", "--model", "ResNet18"}, 2, {"--model", "Did you mean 'resnet18'"}},
      {{"Train"}, 2, {"Did you mean 'train'"}},
      {{"train", "--schedule", "cosin"}, 2, {"--schedule", "'cosine'"}},
      {{"train", "--device", "cup"}, 2, {"--device", "'cpu'"}},
      {{"train", "--data", "fashion-mnits"}, 2, {"--data", "'fashion-mnist'"}},
      {{"kernels", "dump", "--bath-size", "3"}, 2, {"'--batch-size'", "athanor kernels dump --help"}},
      {{"kernels", "dump", "--arch", "gfx", "--out", "x"}, 2, {"--arch", "'gfx'", "gfx1100"}},
      {{"kernels", "dump", "--arch", "sm_86", "--target", "hip", "--out", "x"}, 2, {"--target", "cuda"}},
      {{"kernels", "dump", "--arch", "sm_86", "--device", "cpu", "--out", "x"}, 2, {"--arch", "--device"}},
      {{"fit", "--device", "cpu", "--precision", "tf32"}, 2, {"--precision", "does not multiply in tf32"}},
      {{"kernels", "dmup"}, 2, {"no command 'dmup'", "'dump'", "athanor kernels --help"}},
      {{"train", "--resume"}, 2, {"--resume", "--out"}},
      {{"explain", "--batch-size", "0"}, 2, {"--batch-size"}},
      {{"explain", "--model", "ccn"}, 2, {"'cnn'"}},
      {{"explain", "--input", "1,2"}, 2, {"--input"}},
      {{"predict"}, 2, {"IMAGE", "athanor predict --help"}},
      {{"predict", "a.png", "--top", "0"}, 2, {"--top"}},
      {{"explain", "--threads", "0"}, 2, {"--threads"}},
      {{"eval", "--batch-size", "0"}, 2, {"--batch-size"}},
      {{"eval", "--threads", "0"}, 2, {"--threads"}},
      {{"eval", "--threads", "-1"}, 2, {"--threads"}}};
  for (const Mistake& mistake : mistakes) {
    expect_complaint(folder, mistake);
  }
}

TEST(BadInput, OutsideTheCommandLineExitsWithOne) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "empty");
  write_file_atomically(folder / "text.png", "not an image");
  write_file_atomically(folder / "broken.safetensors", "not a checkpoint");
  std::filesystem::create_directories(folder / "one/train/cats");
  std::filesystem::create_directories(folder / "one/train/notes");
  write_file_atomically(folder / "one/train/notes/dogs.txt", "no pictures yet");
  std::filesystem::create_directories(folder / "gap/train/dogs");  // it has no pictures
  std::filesystem::create_directories(folder / "gap/train/cats");
  const auto png = format_png(HostArray(DType::u8, {8, 8, 3}));
  for (const char* name : {"a.png", "b.png", "c.png", "d.png"})
    for (const char* data : {"one", "gap"})
      write_file_atomically(folder / data / "train/cats" / name, {Bytes(png)});
  write_file_atomically(folder / "one.csv", "a,label\n1,x\n2,x\n3,x\n4,x\n");
  write_file_atomically(folder / "iris.csv", "5.1,3.5,setosa\n4.9,3.0,setosa\n6.4,3.2,virginica\n");
  write_file_atomically(folder / "two.csv", "a,label\n1,x\n2,y\n3,x\n4,y\n");
  std::filesystem::create_directories(folder / "before");
  write_file_atomically(folder / "before/checkpoint.safetensors", "not a checkpoint");
  const std::vector<Mistake> mistakes{
      {{"train", "--data", "one", "--out", "run"}, 1, {"one class, 'cats'", "--data", "train/CLASS"}},
      {{"train", "--data", "gap", "--out", "run"}, 1, {"1 of the 2 class folders has no images: dogs"}},
      {{"train", "--data", "one.csv", "--model", "mlp", "--out", "run"},
       1,
       {"one class, 'x'", "--task regression"}},
      {{"train", "--data", "iris.csv", "--model", "mlp", "--out", "run"},
       1,
       {"iris.csv, line 1", "names of columns"}},
      {{"train", "--data", "two.csv", "--model", "cnn", "--out", "run"}, 1, {"--model mlp"}},
      {{"train", "--data", "two.csv", "--model", "mlp", "--init", "before", "--out", "run"},
       2,
       {"folder of a run", "before/checkpoint.safetensors"}},
      {{"train", "--data", "./nowhere", "--out", "run"}, 1, {"./nowhere"}},
      {{"train", "--data", "empty", "--out", "run"}, 1, {"empty", "train/CLASS/NAME.jpg", "IDX"}},
      {{"eval"}, 1, {"athanor train"}},
      {{"eval", "nowhere"}, 1, {"nowhere"}},
      {{"eval", "empty"}, 1, {"empty", "checkpoint.safetensors"}},
      {{"eval", "broken.safetensors"}, 1, {"broken.safetensors"}},
      {{"predict", "text.png", "--checkpoint", "broken.safetensors"}, 1, {"broken.safetensors"}}};
  for (const Mistake& mistake : mistakes) expect_complaint(folder, mistake);
}

TEST(BadInput, WithoutACommandShowsTheHelp) {
  const TempFolder folder;
  const Outcome outcome = run_program(folder.path(), {});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("train"), std::string::npos);
}

TEST(Help, ExitsWithZero) {
  const TempFolder folder;
  for (const Words& arguments : {Words{"--help"},
                                 {"--version"},
                                 {"train", "--help"},
                                 {"eval", "--help"},
                                 {"predict", "--help"},
                                 {"explain", "--help"},
                                 {"detect"}}) {
    const Outcome outcome = run_program(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_GT(outcome.out.size(), 10U);
    EXPECT_EQ(outcome.err, "");
  }
}

}  // namespace
}  // namespace athanor
