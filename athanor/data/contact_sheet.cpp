#include "athanor/data/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/base64.h"
#include "athanor/base/xml.h"
#include "athanor/data/picture.h"
#include "athanor/formats/image.h"

namespace athanor {
namespace {

constexpr int64_t most_rows = 12, most_columns = 6, tile_height = 96, gap = 4, between = 28;
constexpr uint8_t paper = 255;

/// Up to most_columns examples of each of up to most_rows classes.
std::vector<std::vector<int64_t>> chosen_examples(const Dataset& dataset) {
  std::vector<std::vector<int64_t>> by_class(static_cast<size_t>(dataset.spec().classes));
  for (int64_t i = 0; i < dataset.size(); ++i) {
    auto& examples = by_class[static_cast<size_t>(dataset.label(i))];
    if (static_cast<int64_t>(examples.size()) < most_columns) examples.push_back(i);
  }
  return by_class;
}

std::vector<size_t> chosen_classes(size_t classes) {
  const size_t rows = std::min<size_t>(classes, most_rows);
  std::vector<size_t> result;
  for (size_t i = 0; i < rows; ++i) result.push_back(i * classes / rows);
  return result;
}

/// The tile of an image is put where it belongs on the sheet.
void put_tile(HostArray& sheet, const Picture& picture, int64_t top, int64_t left, int64_t width) {
  const HostArray bytes = to_bytes(picture);
  const Picture scaled = resample(bytes, {0, 0, picture.height, picture.width}, 3, tile_height, width);
  const HostArray tile = to_bytes(scaled);
  const auto stride = static_cast<size_t>(3 * sheet.shape[1]), row = static_cast<size_t>(3 * width);
  for (int64_t y = 0; y < tile_height; ++y)
    std::copy_n(
        tile.as<uint8_t>().begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * row), row,
        sheet.as<uint8_t>().begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(top + y) * stride +
                                                                  static_cast<size_t>(3 * left)));
}

/// The images mixed with each other, as those of a batch.
void mix_pictures(std::vector<Picture>& pictures, const Augmentation& augmentation, RandomStream& random) {
  if (pictures.empty() || !augmentation.mixes()) return;
  const Picture& first = pictures.front();
  const auto count = static_cast<int64_t>(pictures.size());
  HostArray batch(DType::f32, {count, first.channels, first.height, first.width}),
      labels(DType::i64, {count});
  auto out = batch.as<float>().begin();
  for (const Picture& picture : pictures) out = std::ranges::copy(picture.pixels, out).out;
  augmentation.mix(batch, labels, 1, random);
  auto in = batch.as<float>().begin();
  for (Picture& picture : pictures)
    for (float& pixel : picture.pixels) pixel = *in++;
}

}  // namespace

ContactSheet make_contact_sheet(const Dataset& dataset, const Augmentation& augmentation, uint64_t seed) {
  const ExampleSpec& spec = dataset.spec();
  const auto examples = chosen_examples(dataset);
  const std::vector<size_t> classes = chosen_classes(examples.size());
  ContactSheet sheet;
  sheet.tile = tile_height, sheet.gap = gap, sheet.augmented = !augmentation.empty();
  for (const size_t label : classes)
    sheet.columns = std::max(sheet.columns, static_cast<int64_t>(examples[label].size()));
  const int64_t tile_width = std::max<int64_t>(8, tile_height * spec.input[2] / spec.input[1]);
  const int64_t side = sheet.columns * (tile_width + gap);
  const auto rows = static_cast<int64_t>(classes.size());
  sheet.picture =
      HostArray(DType::u8, {rows * (tile_height + gap), side + (sheet.augmented ? between + side : 0), 3});
  std::ranges::fill(sheet.picture.as<uint8_t>(), paper);

  const Augmentation nothing;
  std::vector<Picture> changed;
  std::vector<std::array<int64_t, 2>> places;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t label = classes[static_cast<size_t>(row)];
    sheet.rows.push_back(label < spec.class_names.size() ? spec.class_names[label]
                                                         : fmt::format("class {}", label));
    for (size_t column = 0; column < examples[label].size(); ++column) {
      const int64_t index = examples[label][column];
      const int64_t top = row * (tile_height + gap), left = static_cast<int64_t>(column) * (tile_width + gap);
      int64_t ignored = 0;
      const HostArray stored = dataset.picture(index, ignored);
      RandomStream random(seed, 0, static_cast<uint64_t>(index));
      put_tile(sheet.picture, nothing.apply(stored, spec, random), top, left, tile_width);
      if (!sheet.augmented) continue;
      changed.push_back(augmentation.apply(stored, spec, random));
      places.push_back({top, side + between + left});
    }
  }
  RandomStream for_mixing(seed, 0, 0, 1);
  mix_pictures(changed, augmentation, for_mixing);
  for (size_t i = 0; i < changed.size(); ++i)
    put_tile(sheet.picture, changed[i], places[i][0], places[i][1], tile_width);
  return sheet;
}

std::string contact_sheet_svg(const ContactSheet& sheet, const std::string& title,
                              const std::string& augmentation) {
  constexpr int64_t names = 150, margin = 16, head = 64;
  const int64_t height = sheet.picture.shape[0], width = sheet.picture.shape[1];
  const int64_t all_width = margin + names + width + margin, all_height = head + height + margin;
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<style>
  text {{ font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }}
  .title {{ font-size: 18px; font-weight: 600; fill: #1c2733 }}
</style>
<rect width="{0}" height="{1}" fill="#ffffff"/>
<text class="title" x="{2}" y="28">{3}</text>
<text x="{4}" y="52">as stored</text>
)",
      all_width, all_height, margin, escape_xml(title), margin + names);
  if (sheet.augmented)
    svg += fmt::format("<text x=\"{}\" y=\"52\">augmented by {}</text>\n",
                       margin + names + (width + between) / 2, escape_xml(augmentation));
  for (size_t row = 0; row < sheet.rows.size(); ++row) {
    constexpr size_t longest_name = 20;
    std::string name = sheet.rows[row];
    if (name.size() > longest_name) name = name.substr(0, longest_name - 1) + "\u2026";
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", margin,
                       head + static_cast<int64_t>(row) * (sheet.tile + sheet.gap) + sheet.tile / 2 + 5,
                       escape_xml(name));
  }
  svg += fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" href=\"data:image/png;base64,{}\"/>\n</svg>\n",
      margin + names, head, width, height, to_base64(format_png(sheet.picture)));
  return svg;
}

}  // namespace athanor
