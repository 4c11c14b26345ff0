// examples.json: some test images with a model's answers; samples.jsonl: text that it generated.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/train/class_counts.h"

namespace athanor {

/// Writes the mistakes and right answers of a test, each as a PNG of at most 96 pixels. Does nothing if the
/// examples are not images. Throws Error(io).
void write_examples(const std::filesystem::path& path, const TestResult& test, const ExampleSpec& spec);

struct WrittenSample {
  int64_t step = 0;
  std::string text;
  bool operator==(const WrittenSample&) const = default;
};

/// Adds a sample to those of earlier steps, and removes those of its step and later ones, which were lost.
/// Throws Error(io).
void add_sample(const std::filesystem::path& path, const WrittenSample& sample);
/// The samples that can be read.
std::vector<WrittenSample> read_samples(const std::filesystem::path& path);

}  // namespace athanor
