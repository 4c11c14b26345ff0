#include "athanor/data/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/base64.h"
#include "athanor/base/text_width.h"
#include "athanor/base/xml.h"
#include "athanor/data/picture.h"
#include "athanor/formats/image.h"

namespace athanor {
namespace {

constexpr int64_t most_rows = 12, most_columns = 6, tile_height = 96, gap = 4, between = 28;
constexpr uint8_t paper = 255;  // of the PNG

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

ContactSheet empty_sheet(const ExampleSpec& spec, int64_t rows, int64_t columns, bool augmented) {
  ContactSheet sheet;
  sheet.tile = tile_height, sheet.gap = gap, sheet.columns = columns, sheet.augmented = augmented;
  sheet.tile_width = std::max<int64_t>(8, tile_height * spec.input[2] / spec.input[1]);
  sheet.picture = HostArray(
      DType::u8, {rows * (tile_height + gap), sheet.side() + (augmented ? between + sheet.side() : 0), 3});
  std::ranges::fill(sheet.picture.as<uint8_t>(), paper);
  return sheet;
}

/// Puts an image on the sheet, among the stored ones or the augmented ones.
void put_tile(ContactSheet& on, const Picture& picture, int64_t row, int64_t column, bool augmented) {
  HostArray& sheet = on.picture;
  const int64_t width = on.tile_width, top = row * (tile_height + gap),
                left = (augmented ? on.side() + between : 0) + column * (width + gap);
  on.tiles.push_back({left, top});
  const HostArray bytes = to_bytes(picture);
  const Picture scaled = resample(bytes, {0, 0, picture.height, picture.width}, 3, tile_height, width);
  const HostArray tile = to_bytes(scaled);
  const auto stride = static_cast<size_t>(3 * sheet.shape[1]), length = static_cast<size_t>(3 * width);
  for (int64_t y = 0; y < tile_height; ++y)
    std::copy_n(
        tile.as<uint8_t>().begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * length), length,
        sheet.as<uint8_t>().begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(top + y) * stride +
                                                                  static_cast<size_t>(3 * left)));
}

/// Mixes the images with each other, as in a batch.
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

/// The picture darkened, and over it the mask's colours; white for ignored pixels.
Picture with_mask(const Picture& picture, const Picture& mask, const std::vector<Color>& palette) {
  Picture result(3, picture.height, picture.width);
  const auto size = static_cast<size_t>(picture.plane_size());
  for (size_t i = 0; i < size; ++i) {
    const auto label = static_cast<int64_t>(mask.pixels[i]) - 1;  // -1: ignored
    const Color color = label < 0 ? Color{255, 255, 255} : palette[static_cast<size_t>(label)];
    for (int64_t c = 0; c < 3; ++c) {
      const float under = picture.plane(picture.channels == 3 ? c : 0)[i];
      result.plane(c)[i] = 0.4F * under + 0.6F * static_cast<float>(color[static_cast<size_t>(c)]) / 255.0F;
    }
  }
  return result;
}

ContactSheet sheet_of_masks(const Dataset& dataset, const Augmentation& augmentation, uint64_t seed) {
  const ExampleSpec& spec = dataset.spec();
  const std::vector<Color> palette = mask_palette(std::max<int64_t>(2, spec.classes));
  ContactSheet sheet = empty_sheet(spec, std::min(dataset.size(), most_rows), 2, !augmentation.empty());
  const Augmentation nothing;
  for (int64_t row = 0; row < std::min(dataset.size(), most_rows); ++row) {
    const int64_t index = row * dataset.size() / std::min(dataset.size(), most_rows);
    sheet.rows.push_back(fmt::format("picture {}", index));
    const PictureAndMask stored = dataset.picture_and_mask(index);
    for (const bool changed : {false, true}) {
      if (changed && !sheet.augmented) continue;
      RandomStream random(seed, 0, static_cast<uint64_t>(index));
      const auto [picture, mask] = (changed ? augmentation : nothing).apply(stored, spec, random);
      put_tile(sheet, picture, row, 0, changed);
      put_tile(sheet, with_mask(picture, mask, palette), row, 1, changed);
    }
  }
  return sheet;
}

}  // namespace

ContactSheet make_contact_sheet(const Dataset& dataset, const Augmentation& augmentation, uint64_t seed) {
  if (dataset.spec().pixels) return sheet_of_masks(dataset, augmentation, seed);
  const ExampleSpec& spec = dataset.spec();
  const auto examples = chosen_examples(dataset);
  const std::vector<size_t> classes = chosen_classes(examples.size());
  const auto rows = static_cast<int64_t>(classes.size());
  int64_t columns = 0;
  for (const size_t label : classes) columns = std::max(columns, std::ssize(examples[label]));
  ContactSheet sheet = empty_sheet(spec, rows, columns, !augmentation.empty());

  const Augmentation nothing;
  std::vector<Picture> changed;
  std::vector<std::array<int64_t, 2>> places;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t label = classes[static_cast<size_t>(row)];
    sheet.rows.push_back(label < spec.class_names.size() ? spec.class_names[label]
                                                         : fmt::format("class {}", label));
    for (size_t column = 0; column < examples[label].size(); ++column) {
      const int64_t index = examples[label][column];
      int64_t ignored = 0;
      const HostArray stored = dataset.picture(index, ignored);
      RandomStream random(seed, 0, static_cast<uint64_t>(index));
      put_tile(sheet, nothing.apply(stored, spec, random), row, static_cast<int64_t>(column), false);
      if (!sheet.augmented) continue;
      changed.push_back(augmentation.apply(stored, spec, random));
      places.push_back({row, static_cast<int64_t>(column)});
    }
  }
  RandomStream for_mixing(seed, 0, 0, 1);
  mix_pictures(changed, augmentation, for_mixing);
  for (size_t i = 0; i < changed.size(); ++i) put_tile(sheet, changed[i], places[i][0], places[i][1], true);
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
  .title {{ font-size: 18px; font-weight: 600; fill: #1c2733 }} .page {{ fill: #ffffff }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #93a1b0 }} .title {{ fill: #e8edf3 }} .page {{ fill: #11161d }}
  }}
</style>
<rect class="page" width="{0}" height="{1}"/>
<text class="title" x="{2}" y="28">{3}</text>
<text x="{4}" y="52">as stored</text>
)",
      all_width, all_height, margin, escape_xml(title), margin + names);
  if (sheet.augmented)
    svg += fmt::format("<text x=\"{}\" y=\"52\">augmented by {}</text>\n",
                       margin + names + (width + between) / 2, escape_xml(augmentation));
  for (size_t row = 0; row < sheet.rows.size(); ++row) {
    const std::string name = text_lines(sheet.rows[row], names - 8, {}, 1).front();
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", margin,
                       head + static_cast<int64_t>(row) * (sheet.tile + sheet.gap) + sheet.tile / 2 + 5,
                       escape_xml(name));
  }
  // Only the images of the picture are shown: between them is the page, in its colour.
  svg += "<clipPath id=\"images\"><path d=\"";
  for (const auto& [x, y] : sheet.tiles)
    svg += fmt::format("M{} {}h{}v{}h-{}z", margin + names + x, head + y, sheet.tile_width, sheet.tile,
                       sheet.tile_width);
  svg += fmt::format(
      "\"/></clipPath>\n<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" clip-path=\"url(#images)\" "
      "href=\"data:image/png;base64,{}\"/>\n</svg>\n",
      margin + names, head, width, height, to_base64(format_png(sheet.picture)));
  return svg;
}

}  // namespace athanor
