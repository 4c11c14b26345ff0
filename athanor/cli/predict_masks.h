// athanor predict, for models that predict a class for each pixel.
#pragma once
#include <string>
#include <vector>

#include "athanor/cli/trained_model.h"

namespace athanor::cli {

struct MaskOptions {
  std::vector<std::string> images;
  std::string out;  // a .png for one image, or a folder; "": the current folder
  bool invert = false, json = false;
};

/// Writes a mask of the same size for each image, and prints the share of each class. Returns the exit code.
int predict_masks(const TrainedModel& trained, const MaskOptions& options);

}  // namespace athanor::cli
