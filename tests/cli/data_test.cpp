// athanor data, and training on what is no array: folders of pictures and tables, from the command line.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/formats/image.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;

class Data : public testing::ProgramTest {
 protected:
  /// Dark pictures of "night" and light ones of "sun & day", and one file that is no picture.
  void write_pictures(int count) const {
    for (int i = 0; i < count; ++i)
      for (const bool light : {false, true}) {
        HostArray picture(DType::u8, {12, 16, 3});
        for (size_t at = 0; at < picture.bytes.size(); ++at)
          picture.bytes[at] =
              static_cast<std::byte>((light ? 180 : 20) + (at * 7 + static_cast<size_t>(i) * 13) % 50);
        put(std::string(light ? "p/train/sun & day/" : "p/train/night/") + std::to_string(i) + ".png",
            format_png(picture));
        if (i < 4)
          put(std::string(light ? "p/test/sun & day/" : "p/test/night/") + std::to_string(i) + ".png",
              format_png(picture));
      }
    const std::string rubbish = "rubbish";
    put("p/train/night/broken.jpg", {bytes_of(rubbish).begin(), bytes_of(rubbish).end()});
  }
  void put(const std::string& name, const std::vector<std::byte>& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, {Bytes(content)});
  }
};

TEST_F(Data, ShowsWhatIsInAFolderOfPictures) {
  write_pictures(6);
  const Outcome text = run({"data", "p", "--sheet", "sheet.svg"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("13 for training, 8 for testing, 2 classes"));
  EXPECT_THAT(text.out, HasSubstr("from 16 x 12 to 16 x 12"));
  EXPECT_THAT(text.out, HasSubstr("p/train/night/broken.jpg"));
  EXPECT_THAT(read_text_file(folder_ / "sheet.svg"), HasSubstr("sun &amp; day"));
  EXPECT_THAT(read_text_file(folder_ / "sheet.svg"), HasSubstr("augmented by crop, flip=0.5"));

  const Outcome machine = run({"data", "p", "--json", "--sheet", "sheet.png", "--augment", "none"});
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json found = json::parse(machine.out);
  EXPECT_EQ(found.at("input"), (json{3, 12, 16}));
  EXPECT_EQ(found.at("train").at("examples"), 13);
  EXPECT_EQ(found.at("train").at("broken").size(), 1U);
  EXPECT_EQ(found.at("classes").at(1), (json{{"name", "sun & day"}, {"train", 6}, {"test", 4}}));
  // Two rows of six pictures of 128 x 96, with four pixels after each.
  EXPECT_EQ(read_image(folder_ / "sheet.png").shape, (Shape{200, 792, 3}));
}

TEST_F(Data, RefusesWhatIsNoDataset) {
  EXPECT_EQ(run({"data"}).exit_code, 2);
  const Outcome missing = run({"data", "nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("nowhere"));
  const Outcome augment = run({"data", "fashion-mnist", "--augment", "flp"});
  EXPECT_EQ(augment.exit_code, 2);
  EXPECT_THAT(augment.err, HasSubstr("Did you mean 'flip'?"));
  EXPECT_EQ(run({"data", "fashion-mnist", "--sheet", "a.gif"}).exit_code, 2);
}

TEST_F(Data, AModelLearnsAFolderAndNamesItsClasses) {
  write_pictures(32);
  const Outcome trained =
      run({"train", "--data", "p", "--model", "mlp", "--epochs", "3", "--batch-size", "16", "--lr", "0.02",
           "--augment", "standard,cutmix", "--out", "r", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("augmented by crop, flip=0.5, cutmix=1"));
  EXPECT_THAT(trained.out, HasSubstr("100.0 %"));
  EXPECT_THAT(trained.out, HasSubstr("1 image could not be read"));
  EXPECT_EQ(json::parse(read_text_file(folder_ / "r/summary.json")).at("broken").size(), 1U);
  const json config = json::parse(read_text_file(folder_ / "r/config.json"));
  EXPECT_EQ(config.at("augment"), "standard,cutmix");
  const Outcome predicted = run({"predict", "p/test/sun & day/0.png", "--checkpoint", "r", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_EQ(json::parse(predicted.out).at(0).at("predictions").at(0).at("name"), "sun & day");
  const Outcome tested = run({"eval", "r", "--json"});
  EXPECT_EQ(json::parse(tested.out).at("images"), 8);
  const Outcome stopped =
      run({"train", "--data", "p", "--model", "mlp", "--max-broken", "0", "--batch-size", "32"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.err, HasSubstr("broken.jpg"));
}

TEST_F(Data, AModelLearnsATable) {
  std::string table = "width,kind,class\n";
  for (int i = 0; i < 120; ++i) {
    const bool large = i % 3 == 0;
    table += std::to_string(large ? 50 + i % 7 : 10 + i % 5) +
             (i % 11 == 0 ? ","
              : large     ? ",a"
                          : ",b") +
             (large ? ",large\n" : ",small\n");
  }
  write_file_atomically(folder_ / "t.csv", table);
  const Outcome shown = run({"data", "t.csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("width: a number"));
  EXPECT_THAT(shown.out, HasSubstr("kind: 2 categories (a, b)"));
  const Outcome trained = run({"train", "--data", "t.csv", "--model", "mlp", "--epochs", "4", "--batch-size",
                               "16", "--lr", "0.02", "--out", "r", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("100.0 %"));
  const Outcome tested = run({"eval", "r", "--json"});
  EXPECT_EQ(json::parse(tested.out).at("test_accuracy"), 1.0) << "by the encoding in the checkpoint";
  write_file_atomically(folder_ / "new.csv", std::string("kind,width\na,55\n,11\n"));  // without the class
  const Outcome predicted = run({"predict", "new.csv", "--checkpoint", "r", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const json rows = json::parse(predicted.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("image"), "new.csv, example 1");
  EXPECT_EQ(rows[0].at("predictions").at(0).at("name"), "large");
  EXPECT_EQ(rows[1].at("predictions").at(0).at("name"), "small");
  const Outcome wrong = run({"predict", "t.png", "--checkpoint", "r"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("t.png"));
}

}  // namespace
}  // namespace athanor
