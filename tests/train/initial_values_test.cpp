// Models with initial values from PyTorch's files compute what PyTorch computes (make_init_reference.py).
#include "athanor/train/initial_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/formats/safetensors.h"
#include "athanor/nn/auxiliary.h"
#include "athanor/nn/models.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using nlohmann::json;
using testing::expect_error;
using testing::TempFolder;

/// The same as noise() in make_init_reference.py.
std::vector<float> noise(int64_t count, uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 1; i <= count; ++i) {
    auto x = static_cast<uint32_t>(i) * 0x9E3779B9U + seed * 0x85EBCA6BU;
    x ^= x >> 16;
    x *= 0x85EBCA6BU;
    x ^= x >> 13;
    x *= 0xC2B2AE35U;
    x ^= x >> 16;
    values.push_back(static_cast<float>(x / 2147483648.0 - 1));
  }
  return values;
}

/// The file in which PyTorch would save the model.
SafeTensors file_of(const json& reference) {
  SafeTensors file;
  for (const json& entry : reference.at("tensors")) {
    const std::string name = entry[0];
    const Shape shape(entry[1].get<Ints>());
    std::vector<float> values = noise(shape.size(), entry[2]);
    const float scale = static_cast<float>(
        std::sqrt(3 / (static_cast<double>(shape.size()) / static_cast<double>(shape[0]))));
    for (float& value : values) {
      if (name.ends_with("running_var"))
        value = 1 + value / 2;
      else if (shape.rank() == 1)
        value = 0.5F + value / 2;
      else
        value *= scale;
    }
    file.tensors[name] = HostArray::of<float>(shape, std::span<const float>(values));
  }
  return file;
}

std::vector<json> references() {
  return json::parse(read_text_file(ATHANOR_SOURCE_DIR "/tests/train/data/init.json"));
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-4) << what << " " << i;
}

TEST(InitialValues, GiveWhatPyTorchComputes) {
  const TempFolder folder;
  for (const json& reference : references()) {
    const Shape shape(reference.at("input").get<Ints>());
    const auto model = nn::make_model(reference.at("model"), shape, reference.at("classes"));
    write_safetensors(folder / "a.safetensors", file_of(reference));
    load_initial_values(*model, folder / "a.safetensors");
    model->eval();
    auto* second = dynamic_cast<nn::AuxiliaryLogits*>(model.get());
    if (second != nullptr) {  // the model in training mode, but its parts with running statistics
      model->train();
      for (const auto& [name, child] : model->children()) child->eval();
    }
    const NoGrad no_history;
    std::vector<float> got;
    if (shape.rank() == 3) {
      const int64_t pictures = reference.at("pictures");
      const auto pixels = noise(pictures * shape.size(), 999);
      got = (*model)(Tensor::from(pixels, shape.insert(0, pictures))).to_vector<float>();
      if (second != nullptr)
        expect_near(second->take_auxiliary().to_vector<float>(),
                    reference.at("auxiliary").get<std::vector<float>>(), "the auxiliary head");
    } else {
      std::vector<int64_t> tokens;
      for (const float value : noise(2 * shape.size(), 999))
        tokens.push_back(static_cast<int64_t>((value + 1) * 127));
      const auto all = (*model)(Tensor::from(tokens, shape.insert(0, 2))).to_vector<float>();
      for (size_t text = 0; text < 2; ++text)  // the output for the last token
        got.insert(got.end(), all.begin() + static_cast<int64_t>(text * 16 + 15) * 256,
                   all.begin() + static_cast<int64_t>(text * 16 + 16) * 256);
    }
    expect_near(got, reference.at("output").get<std::vector<float>>(), reference.at("model"));
  }
}

TEST(InitialValues, ALastLayerOfOtherClassesIsLeft) {
  const TempFolder folder;
  const json reference = references().front();
  write_safetensors(folder / "a.safetensors", file_of(reference));
  const auto model = nn::make_model("resnet18", {3, 64, 64}, 3);
  const auto before = model->state_dict();
  const std::string note = load_initial_values(*model, folder / "a.safetensors");
  EXPECT_NE(note.find("fc.bias, fc.weight are new"), std::string::npos) << note;
  const auto after = model->state_dict();
  EXPECT_EQ(after.at("fc.weight").bytes, before.at("fc.weight").bytes);
  EXPECT_NE(after.at("conv1.weight").bytes, before.at("conv1.weight").bytes);
}

TEST(InitialValues, ABertWithoutAHeadKeepsTheDrawnOne) {
  const TempFolder folder;
  const std::vector<json> all = references();
  const json& reference = all[all.size() - 2];
  ASSERT_EQ(reference.at("model"), "bert-tiny");
  SafeTensors file = file_of(reference), headless;  // how BertModel was saved in an older form
  for (auto& [name, array] : file.tensors) {
    if (!name.starts_with("bert.")) continue;
    std::string older = name.substr(5);
    if (const size_t at = older.find("LayerNorm.weight"); at != std::string::npos)
      older.replace(at, 16, "LayerNorm.gamma");
    headless.tensors[older] = array;
  }
  headless.tensors["pooler.dense.bias"] = HostArray::of<float>({128}, std::vector<float>(128));
  write_safetensors(folder / "a.safetensors", headless);
  const auto model = nn::make_model("bert-tiny", {16}, 256);
  const std::string note = load_initial_values(*model, folder / "a.safetensors");
  EXPECT_NE(note.find("cls.predictions.bias"), std::string::npos) << note;
  EXPECT_EQ(model->state_dict().at("bert.embeddings.LayerNorm.weight").bytes,
            file.tensors.at("bert.embeddings.LayerNorm.weight").bytes);
}

TEST(InitialValues, AFileOfAnotherModelIsNamedAndChangesNothing) {
  const TempFolder folder;
  write_safetensors(folder / "gpt.safetensors", file_of(references().back()));
  const auto model = nn::make_model("cnn", {1, 8, 8}, 3);
  const auto before = model->state_dict();
  expect_error(ErrorCode::name, {"gpt.safetensors", "conv1"},
               [&] { load_initial_values(*model, folder / "gpt.safetensors"); });
  EXPECT_EQ(model->state_dict().at("conv1.weight").bytes, before.at("conv1.weight").bytes);
}

}  // namespace
}  // namespace athanor
