#include "athanor/backends/gpu/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/kernel.h"
#include "athanor/backends/gpu/libraries/conv.h"
#include "athanor/base/error.h"
#include "athanor/base/startup_registry.h"
#include "athanor/base/text.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/kernels/prologue.h"

namespace athanor::gpu {
namespace {

StartupRegistry<std::vector<LibraryKind>>& kinds() {
  static StartupRegistry<std::vector<LibraryKind>> all;
  return all;
}

void* aligned(void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return reinterpret_cast<void*>((value + scratch_alignment - 1) / scratch_alignment * scratch_alignment);
}

class CallOfLibrary final : public Kernel {
 public:
  CallOfLibrary(GpuDevice& device, std::string name, LibraryKernel kernel)
      : device_(device), name_(std::move(name)), kernel_(std::move(kernel)) {}

  void prepare() const override {
    if (!kernel_.prepare) return;
    std::call_once(prepared_, [&] {
      device_.driver().give(
          nullptr, [&](Stream) { kernel_.prepare(); }, nullptr);
    });
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    if (queue.device() != device_.id())
      throw Error(ErrorCode::internal, fmt::format("a kernel of {} was given to a queue of {}",
                                                   device_.name(), to_string(queue.device())));
    prepare();
    auto& gpu_queue = static_cast<GpuQueue&>(queue);
    std::vector<void*> addresses;
    for (const Binding& buffer : buffers) {
      const Place place = gpu_queue.place_of(buffer);
      addresses.push_back(place.memory == nullptr ? nullptr
                                                  : static_cast<std::byte*>(place.memory) + place.offset);
    }
    if (kernel_.scratch_bytes > 0) addresses.back() = aligned(addresses.back());
    gpu_queue.give(
        name_, [&](Stream stream) { kernel_.give(stream, addresses); }, site);
  }

 private:
  GpuDevice& device_;
  std::string name_;
  LibraryKernel kernel_;
  mutable std::once_flag prepared_;
};

bool is_empty(const KernelRequest& request) {
  return request.output().shape.size() == 0 ||
         std::ranges::any_of(request.inputs, [](const OperandDesc& x) { return x.shape.size() == 0; });
}

}  // namespace

void Driver::give(Stream, const std::function<void(Stream)>&, Span*) {
  throw Error(ErrorCode::internal, "no library gives commands to this driver's streams");
}

bool register_library(const LibraryKind& kind) {
  kinds().add([&](std::vector<LibraryKind>& all) { all.push_back(kind); });
  return true;
}

struct Libraries::Entry {
  const LibraryKind* kind;
  std::unique_ptr<KernelLibrary> library;
  std::string name;     // "cuBLASLt 13.1.0"
  std::string problem;  // why it is not asked any more
};

Libraries::Libraries(GpuDevice& device) : device_(device) {}
Libraries::~Libraries() = default;

Candidate Libraries::loop(const LoopProgram& program) const {
  return make_candidate(device_, gpu_loop_candidates(program, device_.facts().traits).front(), {});
}

std::vector<Candidate> Libraries::candidates(const KernelRequest& request) {
  std::vector<Candidate> all;
  if (!request.libraries || !request.with.empty() || is_empty(request)) return all;
  if (request.prologue) {
    all = candidates(without_prologue(request));
    for (Candidate& plain : all)
      plain = begin_by_loop(loop(request.prologue->program), std::move(plain), request);
    return all;
  }
  const std::scoped_lock lock(mutex_);
  std::vector<LeftOut> left_out;
  for (const LibraryKind& kind : kinds().list()) {
    if (kind.target != device_.facts().target ||
        std::ranges::find(kind.ops, request.op->name) == kind.ops.end())
      continue;
    auto found = std::ranges::find(entries_, &kind, [](const auto& entry) { return entry->kind; });
    if (found == entries_.end()) {
      entries_.push_back(std::make_unique<Entry>(Entry{&kind, nullptr, kind.name, {}}));
      found = entries_.end() - 1;
    }
    Entry& entry = **found;
    if (!entry.problem.empty()) continue;
    try {
      device_.driver().give(
          nullptr,
          [&](Stream) {
            if (!entry.library) {
              entry.library = kind.open(device_.facts());
              entry.name = fmt::format("{} {}", kind.name, entry.library->version());
            }
            const auto named = [&](LibraryKernel& kernel) {
              std::string name = fmt::format("{} {}", entry.name, kernel.name);
              return library_candidate(device_, std::move(name), std::move(kernel));
            };
            const auto usable = [&](const KernelRequest& asked) {
              auto kernels = entry.library->kernels(asked);
              for (const LibraryKernel& kernel : kernels)
                if (!kernel.problem.empty())
                  left_out.push_back({fmt::format("{} {}", entry.name, kernel.name), kernel.problem});
              std::erase_if(kernels, [](const LibraryKernel& one) { return !one.problem.empty(); });
              return kernels;
            };
            const auto made = [&](const KernelRequest& asked) {
              std::vector<Candidate> candidates;
              const auto turned = turned_convs(asked);
              for (const TurnedConv& conv : turned)
                for (LibraryKernel& kernel : usable(conv.asked)) {
                  std::vector<Candidate> copies;
                  for (const auto& operand : conv.turned) copies.push_back(loop(operand.copy));
                  candidates.push_back(with_turned(named(kernel), std::move(copies), conv));
                }
              if (turned.empty())
                for (LibraryKernel& kernel : usable(asked)) candidates.push_back(named(kernel));
              return candidates;
            };
            const size_t before = all.size() + left_out.size();
            auto kernels = made(request);
            std::ranges::move(kernels, std::back_inserter(all));
            // Perhaps it does not know the epilogue.
            if (kernels.empty() && request.has_epilogue())
              for (Candidate& plain : made(without_epilogue(request)))
                all.push_back(finish_by_loop(std::move(plain), loop(request.epilogue), request));
            if (all.size() + left_out.size() == before)
              left_out.push_back({entry.name, "has no kernel for this problem"});
          },
          nullptr);
    } catch (const Error& error) {
      // Whatever it is, our own kernels do the work. The library stays loaded for kernels that exist already.
      entry.problem = error.problem();
    }
  }
  left_out_[request.key()] = std::move(left_out);
  return all;
}

std::vector<LeftOut> Libraries::left_out(const KernelRequest& request) {
  const std::scoped_lock lock(mutex_);
  const auto found = left_out_.find(without_prologue(request).key());
  return found == left_out_.end() ? std::vector<LeftOut>{} : found->second;
}

std::string scratch_problem(size_t bytes, size_t most) {
  return bytes <= most ? ""
                       : fmt::format("needs {} of scratch memory, the most is {}", format_bytes(bytes),
                                     format_bytes(most));
}

std::vector<std::string> Libraries::found() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& entry : entries_)
    lines.push_back(entry->problem.empty() ? entry->name
                                           : fmt::format("no {}: {}", entry->name, entry->problem));
  return lines;
}

Candidate library_candidate(GpuDevice& device, std::string name, LibraryKernel kernel) {
  const size_t scratch = kernel.scratch_bytes == 0 ? 0 : kernel.scratch_bytes + scratch_alignment;
  const bool fewer_products = kernel.fewer_products;
  auto call = std::make_shared<CallOfLibrary>(device, name, std::move(kernel));
  return {std::move(name), scratch, std::move(call), fewer_products};
}

}  // namespace athanor::gpu
