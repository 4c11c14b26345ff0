// athanor predict, of models that give each pixel a class.
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

/// Writes a mask for each image, of its size, and prints which share each class has. The exit code.
int predict_masks(const TrainedModel& trained, const MaskOptions& options);

}  // namespace athanor::cli
