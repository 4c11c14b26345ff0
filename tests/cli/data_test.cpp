// athanor data, and training on data that are not arrays: folders of pictures and tables.
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
  /// Dark pictures of "night", light ones of "sun & day", and one file that is not a picture.
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
  const std::string sheet = read_text_file(folder_ / "sheet.svg");
  EXPECT_THAT(sheet, HasSubstr("sun &amp; day"));
  EXPECT_THAT(sheet, HasSubstr("augmented by crop, flip=0.5"));
  // In dark mode the page has another colour, and the PNG's white between images must cover none of it.
  EXPECT_THAT(sheet, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(sheet, HasSubstr("clip-path=\"url(#images)\""));
  const std::string tile = "h128v96h-128z";
  size_t tiles = 0;
  for (size_t at = sheet.find(tile); at != std::string::npos; at = sheet.find(tile, at + 1)) ++tiles;
  EXPECT_EQ(tiles, 2U * 2 * 6);

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

TEST_F(Data, CountsOneClass) {
  write_file_atomically(folder_ / "t.csv", "a,label\n1,0\n2,0\n3,0\n4,0\n5,0\n6,0\n");
  const Outcome shown = run({"data", "t.csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(" for testing, 1 class\n"));
}

TEST_F(Data, ShowsWhatIsInAText) {
  put("t.txt", {});
  write_file_atomically(folder_ / "t.txt", {bytes_of(std::string("abab\ncaf\xc3\xa9 \x1b[1m"))});
  const Outcome text = run({"data", "t.txt", "--validation", "0.5"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("15 bytes: 7 for training, the last 8 for testing"));
  EXPECT_THAT(text.out, HasSubstr("15 by bytes: 7 for training, 8 for testing; 1.00 bytes each"));
  EXPECT_THAT(text.out, HasSubstr("12 of 256 occur"));
  EXPECT_THAT(text.out, HasSubstr("It begins:\nabab\nca\n"));
  const Outcome machine = run({"data", "t.txt", "--json", "--validation", "0"});
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json found = json::parse(machine.out);
  EXPECT_EQ(found.at("train").at("tokens"), 15);
  EXPECT_EQ(found.at("most_frequent").at(0), (json{{"token", 97}, {"text", "a"}, {"count", 3}}));
  EXPECT_EQ(run({"data", "t.txt", "--sheet", "a.png"}).exit_code, 2);
  EXPECT_EQ(run({"data", "t.txt", "--validation", "1"}).exit_code, 2);
}

TEST_F(Data, ShowsPicturesWithMasks) {
  for (int i = 0; i < 10; ++i) {
    HostArray picture(DType::u8, {4, 8, 3}), mask(DType::u8, {4, 8, 1});
    std::ranges::fill(picture.as<uint8_t>(), uint8_t{200});
    for (size_t at = 0; at < 8; ++at) mask.as<uint8_t>()[at] = at < 4 ? 1 : 255;
    put("m/images/" + std::to_string(i) + ".png", format_png(picture));
    put("m/masks/" + std::to_string(i) + ".png", format_mask(mask, mask_palette(256)));
  }
  const Outcome machine = run({"data", "m", "--json", "--sheet", "sheet.png", "--augment", "none"});
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json found = json::parse(machine.out);
  const int64_t count = found.at("train").at("examples");
  EXPECT_EQ(found.at("train").at("pixels"), (json{24 * count, 4 * count}));
  EXPECT_EQ(found.at("train").at("ignored_pixels"), 4 * count);
  // A row for each picture: the picture, then the picture with its mask; each 192 x 96, then four pixels.
  const HostArray sheet = read_image(folder_ / "sheet.png");
  EXPECT_EQ(sheet.shape, (Shape{100 * count, 392, 3}));
  const auto pixel = [&](int64_t y, int64_t x) {
    const auto all = sheet.as<uint8_t>();
    const auto at = static_cast<size_t>((y * 392 + x) * 3);
    return std::array<int, 3>{all[at], all[at + 1], all[at + 2]};
  };
  EXPECT_EQ(pixel(50, 50), (std::array<int, 3>{200, 200, 200}));
  EXPECT_EQ(pixel(80, 196 + 50), (std::array<int, 3>{80, 80, 80}));  // class 0 is black
  EXPECT_EQ(pixel(5, 196 + 20), (std::array<int, 3>{157, 80, 80}));  // class 1 is dark red
  const Outcome text = run({"data", "m"});
  EXPECT_THAT(text.out, HasSubstr("12.50 %"));
  EXPECT_EQ(run({"data", "m", "--sheet", "a.png", "--augment", "mixup"}).exit_code, 2);
}

TEST_F(Data, RefusesWhatIsNoDataset) {
  EXPECT_EQ(run({"data"}).exit_code, 2);
  const Outcome missing = run({"data", "nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("nowhere"));
  if (!std::filesystem::exists("/usr/share/datasets/emnist")) {
    std::filesystem::create_directory(folder_ / "emnist-letters");
    EXPECT_THAT(run({"data", "emnist-letters"}).err,
                HasSubstr("For the folder here, write ./emnist-letters"));
  }
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
  const Outcome refused = run({"train", "--data", "t.csv", "--model", "resnet18", "--out", "r"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("for a table or smaller images take mlp"));
  const Outcome trained = run({"train", "--data", "t.csv", "--epochs", "4", "--batch-size", "16", "--lr",
                               "0.02", "--out", "r", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("100.0 %"));
  for (const char* said : {"test examples of 3 numbers, 2 classes", "test examples are right",
                           "examples a second", "predict FILE.csv"})
    EXPECT_THAT(trained.out, HasSubstr(said));
  EXPECT_EQ(trained.out.find("image"), std::string::npos) << trained.out;
  const Outcome tested = run({"eval", "r", "--json"});
  EXPECT_EQ(json::parse(tested.out).at("test_accuracy"), 1.0) << "by the encoding in the checkpoint";
  write_file_atomically(folder_ / "new.csv", std::string("kind,width\na,55\n,11\n"));  // without the class
  const Outcome predicted = run({"predict", "new.csv", "--checkpoint", "r", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const json rows = json::parse(predicted.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("example"), "new.csv, example 1");
  EXPECT_EQ(rows[0].at("predictions").at(0).at("name"), "large");
  EXPECT_EQ(rows[1].at("predictions").at(0).at("name"), "small");
  const Outcome wrong = run({"predict", "t.png", "--checkpoint", "r"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("t.png"));
}

}  // namespace
}  // namespace athanor
