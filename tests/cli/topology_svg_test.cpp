// The picture of `detect --topology --svg`: every text fits its box, measured with the widths of a wide font.
#include <gmock/gmock.h>

#include "athanor/base/text_width.h"
#include "tests/cli/program_test.h"
#include "tests/doctor/fixture.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using testing::Outcome;
using testing::UnpackedMachine;

// Advance widths of the characters from ' ' on, in thousandths of the font size, from the fonts' hmtx tables:
// DejaVu Sans and DejaVu Sans Bold, the widest fonts that the picture names.
constexpr int regular[] = {318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
                           636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
                           1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
                           603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
                           500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
                           635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};
constexpr int bold[] = {348,  456, 521, 838, 696, 1002, 872, 306,  457, 457, 523, 838, 380, 415,  380, 365,
                        696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 580,
                        1000, 774, 762, 734, 830, 683,  683, 821,  837, 372, 372, 775, 637, 995,  837, 850,
                        733,  850, 770, 720, 682, 812,  774, 1103, 771, 724, 725, 457, 365, 457,  838, 500,
                        500,  675, 716, 593, 716, 678,  435, 716,  712, 343, 343, 665, 343, 1042, 712, 687,
                        716,  716, 493, 595, 478, 712,  652, 924,  645, 652, 582, 712, 365, 712,  838};

double measured(const std::string& text, bool is_bold, double size) {
  double width = 0;
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 32 && static_cast<unsigned char>(c) < 127)
      width += (is_bold ? bold : regular)[c - 32] * size / 1000;
    else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80)
      width += 0.38 * size;  // '·', the only other character of the picture itself
  return width;
}

struct Box {
  double x, y, width, height;
};

struct Placed {
  double x, y;
  std::string kind, text;
};

double number(const std::string& tag, const std::string& name) {
  const testing::Match found = testing::first_match(tag, " " + name + "=\"([0-9.]+)\"");
  return found.empty() ? -1 : std::stod(found[1]);
}

// The picture's texts that do not fit the smallest box in which they begin (or the page).
std::vector<std::string> sticking_out(const std::string& svg) {
  std::vector<Box> boxes;
  std::vector<Placed> texts;
  for (const testing::Match& rect : testing::matches(svg, "<rect class=[^>]*>")) {
    const std::string& tag = rect[0];
    boxes.push_back({number(tag, "x"), number(tag, "y"), number(tag, "width"), number(tag, "height")});
  }
  for (const testing::Match& one : testing::matches(svg, "<text[^>]*class=\"([a-z]*)\">([^<]*)</text>")) {
    const std::string said = testing::replaced(testing::replaced(one[2], "&lt;", "<"), "&gt;", ">");
    texts.push_back(
        {number(one[0], "x"), number(one[0], "y"), one[1], testing::replaced(said, "&amp;", "&")});
  }
  const double page = number(svg.substr(0, svg.find('>')), "width");
  std::vector<std::string> out;
  for (const Placed& one : texts) {
    Box around{0, 0, page, 1e9};
    for (const Box& box : boxes)
      if (one.x >= box.x && one.x <= box.x + box.width && one.y >= box.y && one.y <= box.y + box.height &&
          box.width < around.width)
        around = box;
    const bool is_bold = !one.kind.empty() && one.kind != "link";
    const double size = one.kind == "title" ? 21 : one.kind == "head" ? 15 : 13;
    // 4 px below the letters must stay free.
    if (one.x + measured(one.text, is_bold, size) > around.x + around.width ||
        one.y + 4 > around.y + around.height)
      out.push_back(one.text);
  }
  EXPECT_GT(texts.size(), 2U);
  EXPECT_GT(boxes.size(), 1U);
  return out;
}

class TopologyPicture : public testing::ProgramTest {
 protected:
  std::string draw(const std::string& machine, const std::string& name = "") {
    const UnpackedMachine unpacked(machine);
    if (!name.empty())
      for (const std::string& card : unpacked->glob("/sys/bus/pci/devices/*"))
        if (unpacked->exists(card + "/mem_info_vram_total"))
          testing::write_text(unpacked.root() / unpacked->resolve(card)->substr(1) / "product_name",
                              name + "\n");
    const Outcome end = run({"detect", "--root", unpacked.root().string(), "--svg", "m.svg"});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return text("m.svg");
  }
};

TEST_F(TopologyPicture, KeepsEveryTextInItsBox) {
  for (const auto& file : std::filesystem::directory_iterator(testing::machines_folder())) {
    if (file.path().extension() != ".machine") continue;
    const std::string name = file.path().stem();
    EXPECT_THAT(sticking_out(draw(name)), ::testing::IsEmpty()) << name;
  }
  // An integrated GPU and a card of which only the ids are known.
  EXPECT_THAT(sticking_out(draw("doctor/healthy-integrated-and-discrete")), ::testing::IsEmpty());
}

TEST(TextWidths, AreNoLessThanTheFonts) {
  for (char c = ' '; c < 127; ++c) {
    EXPECT_GE(text_width(std::string(1, c), {1000, true}) + 1e-6, bold[c - 32]) << c;
    EXPECT_GE(text_width(std::string(1, c), {1000, false}) + 1e-6, regular[c - 32]) << c;
  }
}

TEST(TextLines, AreBrokenBetweenWords) {
  const std::string text = "AMD GPU 1002:744c (one of: Radeon RX 7900 XT, Radeon RX 7900 XTX)";
  const auto two = text_lines(text, 200, {13, true}, 2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_TRUE(two[1].ends_with("...")) << two[1];
  for (const std::string& line : two) EXPECT_LE(text_width(line, {13, true}), 200) << line;
  std::string joined;
  for (const std::string& line : text_lines(text, 200, {13, true}, 99))
    joined += (joined.empty() ? "" : " ") + line;
  EXPECT_EQ(joined, text);
  EXPECT_EQ(text_lines(std::string(100, 'W'), 30, {13, true}, 99).size(),
            50U);  // a word longer than the line
  for (const std::string& line : text_lines("ÄÖÜÄÖÜÄÖÜÄÖÜ", 30, {13, true}, 99))
    EXPECT_EQ(line.size() % 2, 0U);
  EXPECT_TRUE(text_lines("", 30, {13, true}, 2).empty());
}

}  // namespace
}  // namespace athanor
