// Every kind of model from the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/formats/image.h"
#include "athanor/formats/npy.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ModelsProgram : public testing::ProgramTest {
 protected:
  ModelsProgram() { show_whole_lines(); }
};

TEST_F(ModelsProgram, ExplainShowsEveryKind) {
  for (const char* name : {"vit-tiny", "inception_v3", "bert-tiny"}) {
    const testing::Outcome outcome = run({"explain", "--model", name, "--batch-size", "2", "--device", "cpu",
                                          "--threads", "1", "--deterministic", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << name << outcome.err;
    const json plan = json::parse(outcome.out);
    EXPECT_GT(plan["kernels_total"], 50) << name;
    EXPECT_EQ(plan["kernels_off_device"], 0) << name;
  }
}

// A U-Net has concatenations. This chip has no matrix units for f32: lanes multiply tiles. With OpenCL other
// kernels are the best guess.
TEST_F(ModelsProgram, KernelsHaveChannelsLastIfTilesAreTheBestGuess) {
  for (const auto& [model, precision, last] : {std::tuple{"resnet18", "bf16", true},
                                               {"resnet18", "f32", true},
                                               {"unet-small", "bf16", true},
                                               {"resnet18", "f32", false}}) {
    const std::string folder = fmt::format("{}-{}-{}", model, precision, last);
    const testing::Outcome outcome = run(
        {"kernels", "dump", "--model", model, "--precision", precision, "--batch-size", "4",
         last ? "--arch" : "--target", last ? "gfx1100" : "opencl", "--input", "3,64,64", "--out", folder});
    ASSERT_EQ(outcome.exit_code, 0) << model << outcome.err;
    int turned = 0, padded = 0, in_place = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / folder)) {
      const std::string name = file.path().filename().string();
      turned += name.ends_with("channels_last.hip") ? 1 : 0;
      padded += name.ends_with("pad_images.hip") ? 1 : 0;
      if (name.ends_with("gemm_tiles.hip")) {
        const std::string source = read_text_file(file.path());
        in_place += source.find("_taps_of(") != std::string::npos ? 1 : 0;
      }
    }
    EXPECT_EQ(in_place > 0, last) << model << " " << precision;
    EXPECT_EQ(padded, 0) << "images with channels last are read where they lie";
    EXPECT_TRUE(!last || turned <= 2) << turned << ": only the network's images have their channels first";
  }
}

TEST_F(ModelsProgram, ViTIsTrained) {
  HostArray images(DType::u8, {12, 8, 8}), labels(DType::i64, {12});
  for (size_t i = 0; i < 12; ++i) labels.as<int64_t>()[i] = static_cast<int64_t>(i % 2);
  for (const char* split : {"train", "test"}) {
    write_npy(folder_ / fmt::format("{}_images.npy", split), images);
    write_npy(folder_ / fmt::format("{}_labels.npy", split), labels);
  }
  const testing::Outcome trained =
      run({"train", "--model", "vit-tiny", "--data", ".", "--device", "cpu", "--threads", "1", "--batch-size",
           "4", "--max-steps", "2", "--out", "run", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(trained.out)["steps"], 2);
}

TEST_F(ModelsProgram, BertIsTrainedAndTested) {
  std::string content;
  for (int i = 0; i < 200; ++i) content += "one two three, four five.\n";
  write_file_atomically(folder_ / "text.txt", content);
  const Words train{"train", "--model",   "bert-tiny", "--data",      "text.txt", "--device",
                    "cpu",   "--threads", "1",         "--context",   "16",       "--batch-size",
                    "4",     "--out",     "run",       "--max-steps", "3"};
  const testing::Outcome trained = run(train);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("windows of 16 with 2 hidden"));
  EXPECT_THAT(trained.out, HasSubstr("hidden tokens of test text are right, perplexity"));
  EXPECT_THAT(trained.out, HasSubstr("athanor eval --data FILE.txt --checkpoint run"));
  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  const json result = json::parse(tested.out), summary = json::parse(text("run/summary.json"));
  EXPECT_NEAR(result["test_loss"], summary["test_loss"], 1e-6);
  EXPECT_NEAR(result["test_perplexity"], summary["test_perplexity"], 1e-4);
  for (const Words& words :
       {Words{"sample", "run", "--prompt", "one"}, Words{"predict", "x.png", "--checkpoint", "run"}}) {
    const testing::Outcome refused = run(words);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("athanor eval --data FILE.txt"));
  }
}

TEST_F(ModelsProgram, NumbersArePredicted) {
  std::string table = "area,rooms,price\n", rows = "rooms,area\n2,50\n3,100\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},{},{}\n", 30 + i * 37 % 170, i % 4, 30 + i * 37 % 170);
  write_file_atomically(folder_ / "house.csv", table);
  write_file_atomically(folder_ / "new.csv", rows);
  const testing::Outcome trained =
      run({"train", "--task", "regression", "--data", "house.csv", "--target", "price", "--device", "cpu",
           "--threads", "1", "--epochs", "8", "--out", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("examples of 2 numbers, to predict price"));
  EXPECT_THAT(trained.out, HasSubstr("mean absolute error"));
  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  const json result = json::parse(tested.out), summary = json::parse(text("run/summary.json"));
  EXPECT_NEAR(result["test_r2"], summary["test_r2"], 1e-6);
  EXPECT_NEAR(result["test_rmse"], summary["test_rmse"], 1e-4);
  const testing::Outcome predicted =
      run({"predict", "new.csv", "--checkpoint", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const json numbers = json::parse(predicted.out);
  EXPECT_NEAR(numbers[0]["numbers"]["price"], 50, 15);
  EXPECT_NEAR(numbers[1]["numbers"]["price"], 100, 15);
  for (const Words& words :
       {Words{"runs", "ls", "."}, Words{"runs", "compare", "run", "run"}, Words{"runs", "report", "run"},
        Words{"runs", "plot", "run", "--out", "plot.svg"}, Words{"eval", "run", "--device", "cpu"}}) {
    const testing::Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << words[1] << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("ccuracy"))) << words[1];
  }
  for (const char* file : {"run/report.html", "plot.svg", "run/loss.svg"})
    EXPECT_THAT(text(file), ::testing::Not(HasSubstr("ccuracy"))) << file;
}

TEST_F(ModelsProgram, ATableOfNumbersNeedsItsTask) {
  std::string table = "area,price\n";
  for (int i = 0; i < 60; ++i) table += fmt::format("{},{}.5\n", i * 7 % 60, i);
  write_file_atomically(folder_ / "house.csv", table);
  const testing::Outcome refused = run({"train", "--data", "house.csv", "--model", "mlp", "--out", "run"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'price' holds 60 different numbers in 60 rows"));
  EXPECT_THAT(refused.err, HasSubstr("--task regression"));
  EXPECT_THAT(run({"data", "house.csv", "--task", "regression"}).out, HasSubstr("target   price"));
  const testing::Outcome unknown = run({"data", "house.csv", "--task", "regresion"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("Did you mean 'regression'"));
}

TEST_F(ModelsProgram, FindLrStaysWithinTheMemoryLimit) {
  HostArray images(DType::u8, {64, 16, 16}), labels(DType::i64, {64});
  for (size_t i = 0; i < 64; ++i) labels.as<int64_t>()[i] = static_cast<int64_t>(i % 3);
  for (const char* split : {"train", "test"}) {
    write_npy(folder_ / fmt::format("{}_images.npy", split), images);
    write_npy(folder_ / fmt::format("{}_labels.npy", split), labels);
  }
  const Words find{"train", "--find-lr", "lr.svg", "--model",      "cnn", "--data",    ".", "--lr",
                   "0.1",   "--device",  "cpu",    "--batch-size", "64",  "--threads", "1", "--json"};
  const auto limited = [&](const char* limit) {
    Words words = find;
    words.insert(words.end(), {"--memory-limit", limit});
    return run(words);
  };
  const testing::Outcome found = limited("1GiB");
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_GT(json::parse(found.out)["points"].size(), 20U);
  EXPECT_THAT(text("lr.svg"), HasSubstr("</svg>"));
  const testing::Outcome refused = limited("1MiB");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--memory-limit"));
}

TEST_F(ModelsProgram, MasksAreLearnedAndWritten) {
  HostArray picture(DType::u8, {16, 24, 3}), mask(DType::u8, {16, 24, 1});
  for (size_t i = 0; i < 384; ++i) {
    mask.as<uint8_t>()[i] = i % 24 < 12 ? 0 : 1;
    for (size_t c = 0; c < 3; ++c) picture.as<uint8_t>()[i * 3 + c] = i % 24 < 12 ? 30 : 220;
  }
  std::filesystem::create_directories(folder_ / "data" / "images");
  std::filesystem::create_directories(folder_ / "data" / "masks");
  for (int i = 0; i < 10; ++i) {
    picture.as<uint8_t>()[0] = static_cast<uint8_t>(i);
    write_file_atomically(folder_ / "data" / "images" / fmt::format("{}.png", i),
                          {Bytes(format_png(picture))});
    write_file_atomically(folder_ / "data" / "masks" / fmt::format("{}.png", i),
                          {Bytes(format_mask(mask, mask_palette(2)))});
  }
  const testing::Outcome trained = run({"train", "--data", "data", "--device", "cpu", "--threads", "1",
                                        "--batch-size", "3", "--epochs", "6", "--out", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("9 training and 1 test images of 3x16x24 with masks of 2 classes"));
  EXPECT_THAT(trained.out, HasSubstr("mean IoU"));
  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  const json result = json::parse(tested.out), summary = json::parse(text("run/summary.json"));
  EXPECT_EQ(result["pixels"], 384);
  EXPECT_NEAR(result["test_mean_iou"], summary["test_mean_iou"], 1e-6);
  const testing::Outcome predicted = run(
      {"predict", "data/images/3.png", "--checkpoint", "run", "--device", "cpu", "--out", "masks", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const json written = json::parse(predicted.out)[0];
  EXPECT_EQ(written["mask"], "masks/3.mask.png");
  const testing::Outcome twice =
      run({"predict", "data/images/3.png", "./data/images/3.png", "--checkpoint", "run"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("would be one file"));
  const testing::Outcome here =
      run({"predict", "data/images/3.png", "--checkpoint", "run", "--device", "cpu"});
  ASSERT_EQ(here.exit_code, 0) << here.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "3.mask.png"));
  const HostArray made = read_mask(folder_ / "masks" / "3.mask.png");
  EXPECT_EQ(to_string(made.shape), "[16, 24, 1]");
  int64_t right = 0;
  for (size_t i = 0; i < 384; ++i) right += made.as<uint8_t>()[i] == mask.as<uint8_t>()[i] ? 1 : 0;
  EXPECT_EQ(static_cast<double>(right) / 384.0, result["test_accuracy"]) << "all images are alike";
  const testing::Outcome looked = run({"data", "data"});
  EXPECT_EQ(looked.exit_code, 0) << looked.err;
  EXPECT_THAT(looked.out, HasSubstr("2 classes of pixels"));
  const testing::Outcome planned = run({"explain", "--model", "unet-small", "--input", "3,32,32",
                                        "--batch-size", "2", "--device", "cpu", "--deterministic", "--json"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

#ifdef ATHANOR_OWN_MODEL
TEST_F(ModelsProgram, ALibraryIsServedAsAnyModel) {
  HostArray images(DType::u8, {12, 8, 8}), labels(DType::i64, {12});
  for (size_t i = 0; i < 12; ++i) labels.as<int64_t>()[i] = static_cast<int64_t>(i % 3);
  for (const char* split : {"train", "test"}) {
    write_npy(folder_ / fmt::format("{}_images.npy", split), images);
    write_npy(folder_ / fmt::format("{}_labels.npy", split), labels);
  }
  std::filesystem::copy_file(ATHANOR_OWN_MODEL, folder_ / "mine.so");
  const Words train{"train", "--model",      "mine.so", "--data",      ".", "--device", "cpu", "--threads",
                    "1",     "--batch-size", "4",       "--max-steps", "2", "--out",    "run", "--json"};
  const testing::Outcome trained = run(train);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(trained.out)["parameters"], 16 * 9 + 16 + 16 * 16 * 9 + 16 + 16 * 3 + 3);
  EXPECT_EQ(json::parse(text("run/config.json"))["model"], (folder_ / "mine.so").string());
  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  EXPECT_EQ(json::parse(tested.out)["images"], 12);
  for (const Words& words : {Words{"explain", "--batch-size", "2"}, Words{"tune", "--batch-size", "2"},
                             Words{"fit", "--batch-size", "2"}}) {
    Words all = words;
    all.insert(all.end(), {"--model", "./mine.so", "--input", "1,8,8", "--device", "cpu", "--threads", "1"});
    const testing::Outcome outcome = run(all);
    EXPECT_EQ(outcome.exit_code, 0) << words.front() << outcome.err;
  }
  std::filesystem::remove(folder_ / "mine.so");
  const testing::Outcome gone = run({"eval", "run", "--device", "cpu"});
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_THAT(gone.err, HasSubstr("there is no such library"));
}

TEST_F(ModelsProgram, ALibraryThatIsNoneIsRefused) {
  write_file_atomically(folder_ / "text.so", "no library");
  const std::vector<std::pair<std::string, std::string>> refused{
      {"./none.so", "there is no such library"},
      {"text.so", "cannot be loaded"},
      {ATHANOR_MODEL_WITHOUT_A_MODEL, "holds no model"},
      {ATHANOR_MODEL_OF_ANOTHER_VERSION, "another version of Athanor"},
      {ATHANOR_MODEL_OF_NOTHING, "made no model"}};
  for (const auto& [file, problem] : refused) {
    const testing::Outcome outcome = run({"explain", "--model", file, "--device", "cpu"});
    EXPECT_EQ(outcome.exit_code, 2) << file;
    EXPECT_THAT(outcome.err, HasSubstr(problem)) << file;
  }
}
#endif

}  // namespace
}  // namespace athanor
