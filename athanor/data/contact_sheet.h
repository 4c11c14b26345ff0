// A contact sheet: images of a dataset in one image.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "athanor/data/augmentation.h"
#include "athanor/data/dataset.h"
#include "athanor/graph/host_array.h"

namespace athanor {

struct ContactSheet {
  HostArray picture;                          // u8 [height, width, 3]
  int64_t tile = 0, tile_width = 0, gap = 0;  // pixels: an image's height and width, and the gap between two
  int64_t columns = 0;                        // of stored images; as many augmented ones follow
  bool augmented = false;
  std::vector<std::array<int64_t, 2>> tiles;  // the images' positions: x, y
  std::vector<std::string> rows;              // the class of each; for masks the picture's number

  /// The width of all stored pictures of a row.
  int64_t side() const { return columns * (tile_width + gap); }
};

/// A row for each of up to 12 classes, with up to 6 of its images as a model gets them, and beside these the
/// same augmented, as in an epoch of a run with this seed. If there are more classes, they are spread evenly.
/// For segmentation, a row for each of up to 12 images: the image, its mask over it in the colours of
/// mask_palette(), and both augmented.
ContactSheet make_contact_sheet(const Dataset& dataset, const Augmentation& augmentation, uint64_t seed);

/// The sheet with the classes' names: an SVG that needs no other file.
std::string contact_sheet_svg(const ContactSheet& sheet, const std::string& title,
                              const std::string& augmentation);

}  // namespace athanor
