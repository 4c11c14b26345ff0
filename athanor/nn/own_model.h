// Your own model as a shared library, for the program: athanor train --model ./mine.so
#pragma once
#include <cstdint>
#include <memory>

#include "athanor/nn/models.h"

/// Makes a source file a model's library. `make` is a function `std::unique_ptr<athanor::nn::Module>
/// make(const athanor::Shape& input, int64_t classes)`, like make_model() without the name. Fields of
/// OwnModel with other values than the defaults follow:
///
///     ATHANOR_MODEL(make)
///     ATHANOR_MODEL(make, .objective = athanor::nn::Objective::next_token, .smallest = 0)
///
/// Compile it as a shared library with athanor::athanor (see examples/own_model.cpp).
#define ATHANOR_MODEL(function, ...)                                                         \
  extern "C" ATHANOR_OWN_MODEL_EXPORT const ::athanor::nn::OwnModel* athanor_own_model() {   \
    static const ::athanor::nn::OwnModel model{.make = function __VA_OPT__(, ) __VA_ARGS__}; \
    return &model;                                                                           \
  }

#ifdef _WIN32
#define ATHANOR_OWN_MODEL_EXPORT __declspec(dllexport)
#else
#define ATHANOR_OWN_MODEL_EXPORT __attribute__((visibility("default")))
#endif

namespace athanor::nn {

/// A library's description of its model.
struct OwnModel {
  /// `form` changes with the interface between libraries and program. In every version, it and `sizes` are
  /// the first fields.
  uint64_t form = current_form;
  uint64_t sizes = current_sizes;
  std::unique_ptr<Module> (*make)(const Shape& input, int64_t classes) = nullptr;
  Objective objective = Objective::classes;
  int64_t smallest = 1;  // height and width of images; 0 for text

  static constexpr uint64_t current_form = 1;
  /// The sizes of types, on which the headers of library and program must agree.
  static constexpr uint64_t current_sizes =
      sizeof(Module) << 32U | sizeof(Tensor) << 24U | sizeof(Shape) << 8U | sizeof(Parameter);
};

/// Loads a library, once. It stays loaded until the program ends. Throws Error(usage) if it cannot be loaded,
/// holds no model, or was compiled with another version of Athanor.
const OwnModel& load_own_model(const std::string& file);

}  // namespace athanor::nn
