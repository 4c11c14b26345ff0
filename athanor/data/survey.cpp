#include "athanor/data/survey.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/data/encoded_pictures.h"

namespace athanor {
namespace {

constexpr int64_t most_headers = 2000, most_masks = 500;

/// The findings about one image; each thread writes its own.
struct Seen {
  ImageExtents extents;
  std::string problem;
};

Seen look_at(const EncodedPictures& pictures, int64_t index, bool whole) {
  try {
    return {pictures.extents(index, whole), {}};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

std::vector<Seen> look_at_all(const EncodedPictures& pictures, int64_t count, const SurveyOptions& options) {
  std::vector<Seen> seen(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0, done = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++, ++done)
      seen[static_cast<size_t>(i)] = look_at(pictures, i * pictures.size() / count, options.whole);
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < options.threads; ++i) threads.emplace_back(work);
  try {
    while (done < count) {
      options.progress(done, count);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (...) {
    next = count;  // the threads end; they are waited for
    throw;
  }
  return seen;
}

void set_sizes(std::vector<ImageExtents>& sizes, SplitSurvey& result) {
  if (sizes.empty()) return;
  std::ranges::sort(sizes, {}, [](const ImageExtents& e) { return e.height * e.width; });
  result.smallest = sizes.front(), result.median = sizes[sizes.size() / 2], result.largest = sizes.back();
}

void add_pictures(const EncodedPictures& pictures, const SurveyOptions& options, SplitSurvey& result) {
  const int64_t count = options.whole ? pictures.size() : std::min(pictures.size(), most_headers);
  std::vector<ImageExtents> sizes;
  for (Seen& one : look_at_all(pictures, count, options)) {
    if (!one.problem.empty()) {
      result.broken.push_back(std::move(one.problem));
      continue;
    }
    result.grey += one.extents.channels == 1 ? 1 : 0;
    sizes.push_back(one.extents);
  }
  result.looked_at = count;
  set_sizes(sizes, result);
}

}  // namespace

namespace {

void add_masks(const Dataset& dataset, const SurveyOptions& options, SplitSurvey& result) {
  result.looked_at = options.whole ? dataset.size() : std::min(dataset.size(), most_masks);
  result.pixels_by_class.resize(static_cast<size_t>(dataset.spec().classes));
  std::vector<ImageExtents> sizes;
  for (int64_t i = 0; i < result.looked_at; ++i) {
    options.progress(i, result.looked_at);
    const PictureAndMask pair = dataset.picture_and_mask(i * dataset.size() / result.looked_at);
    const Shape& shape = pair.picture.shape;
    result.grey += shape[2] == 1 ? 1 : 0;
    sizes.push_back({.height = shape[0], .width = shape[1], .channels = shape[2]});
    for (const uint8_t pixel : pair.mask.as<uint8_t>())
      ++(pixel < result.pixels_by_class.size() ? result.pixels_by_class[pixel] : result.ignored_pixels);
  }
  result.broken = dataset.broken();
  set_sizes(sizes, result);
}

}  // namespace

SplitSurvey survey(const Dataset& dataset, const SurveyOptions& options) {
  SplitSurvey result;
  result.examples = dataset.size();
  result.by_class.resize(static_cast<size_t>(dataset.spec().classes));
  for (int64_t i = 0; i < dataset.size(); ++i) ++result.by_class[static_cast<size_t>(dataset.label(i))];
  if (const auto* pictures = dynamic_cast<const EncodedPictures*>(&dataset))
    add_pictures(*pictures, options, result);
  if (dataset.spec().pixels) add_masks(dataset, options, result);
  return result;
}

}  // namespace athanor
