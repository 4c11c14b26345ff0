// Which learning rate suits a run: a sweep from too small to too large (Smith 2017, "Cyclical learning
// rates").
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/train/config.h"

namespace athanor {

struct LrPoint {
  double lr = 0, loss = 0;  // the batch's loss, before the update with this rate
  double smooth = 0;        // the mean over the steps around it
};

struct LrSweep {
  Device device;
  int64_t batch_size = 0;
  std::string precision_note;  // see RunFacts
  std::vector<LrPoint> points;
  std::optional<double> steepest;   // where the loss falls fastest; none if it does not fall
  std::optional<double> grows;      // where the loss has grown again; none if the range ends before
  std::optional<double> suggested;  // a tenth of that, or where it falls fastest if it never grows
};

/// Fills in all values that follow from rates and losses.
void judge(LrSweep& sweep);

/// Trains a new model by `config`, each step at a larger rate than the one before: 20 steps to each power of
/// ten from 1e-6 (1e-7 for other optimizers than sgd) up to 10 (1), or until the loss is four times the least
/// so far. Nothing is kept and no file is written. `on_step(done, of)` is called after each step. Throws what
/// opening data and device throws, and Interrupted.
LrSweep sweep_learning_rates(TrainConfig config, const std::function<void(int64_t, int64_t)>& on_step);

/// A self-contained SVG document, for light and dark pages: loss against learning rate.
std::string draw_lr_sweep(const LrSweep& sweep, const std::string& title, const std::string& subtitle);

}  // namespace athanor
