#include "athanor/kernels/references.h"

#include <algorithm>
#include <string>
#include <utility>

#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/kernels/prologue.h"

namespace athanor {
namespace {

// With more, the host would take longer than some tenths of a second.
constexpr int64_t most_host_flops = 4'000'000'000;
// Attempts that are worth their time.
constexpr size_t most_references = 3;

// The first word of a name.
std::string make_of(const Candidate& candidate) { return candidate.name.substr(0, candidate.name.find(' ')); }

// The simplest kernels are the last of the candidates.
std::vector<Reference> of_another_make(const std::vector<Candidate>& candidates, const std::string& make) {
  std::vector<Reference> others;
  for (size_t j = candidates.size(); j-- > 0;)
    if (make_of(candidates[j]) != make) others.push_back({candidates[j], j});
  std::ranges::stable_partition(others, [](const Reference& one) {
    return one.candidate.kernel && one.candidate.kernel->generated() == nullptr;
  });
  if (others.size() > most_references) others.erase(others.begin() + most_references, others.end());
  return others;
}

std::vector<Reference> between_loops(Device device, const KernelRequest& request, const std::string& make) {
  Backend& backend = backend_of(device);
  const KernelRequest computed = without_prologue(request);
  const KernelRequest plain = without_epilogue(computed);
  std::vector<Reference> all = of_another_make(backend.candidates(device.index, plain), make);
  for (Reference& one : all) {
    one.place.reset();
    if (request.has_epilogue())
      one.candidate = finish_by_loop(std::move(one.candidate),
                                     backend.loop_kernel(device.index, request.epilogue), computed);
    if (request.prologue)
      one.candidate = begin_by_loop(backend.loop_kernel(device.index, request.prologue->program),
                                    std::move(one.candidate), request);
  }
  return all;
}

}  // namespace

std::vector<Reference> references(Device device, const KernelRequest& request,
                                  const std::vector<Candidate>& candidates, size_t i) {
  if (request.flops() <= most_host_flops || info_of(device).kind == "cpu") return {};
  const std::string make = make_of(candidates[i]);
  auto all = of_another_make(candidates, make);
  if (all.empty() && (request.has_epilogue() || request.prologue) && request.with.empty())
    all = between_loops(device, request, make);
  return all;
}

}  // namespace athanor
