// Libraries that `--model` refuses: one without a model, one of another version, and one that makes no model.
#include "athanor/nn/own_model.h"

using athanor::nn::OwnModel;

#if defined(WITHOUT_A_MODEL)
extern "C" ATHANOR_OWN_MODEL_EXPORT int something_else() { return 1; }
#elif defined(OF_ANOTHER_VERSION)
extern "C" ATHANOR_OWN_MODEL_EXPORT const OwnModel* athanor_own_model() {
  static const OwnModel model{.form = OwnModel::current_form + 1};
  return &model;
}
#else
namespace {
std::unique_ptr<athanor::nn::Module> nothing(const athanor::Shape&, int64_t) { return nullptr; }
}  // namespace
ATHANOR_MODEL(nothing)
#endif
