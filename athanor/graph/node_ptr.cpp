#include "athanor/graph/node_ptr.h"

#include "athanor/graph/node.h"

namespace athanor {
namespace {

// A long chain of nodes must not be released by recursion: it would overrun the stack.
void release(std::vector<NodePtr> dying) {
  while (!dying.empty()) {
    const NodePtr node = std::move(dying.back());
    dying.pop_back();
    if (!node || node->references() != 1) continue;
    for (auto& input : node->inputs) dying.push_back(std::move(input));
    node->inputs.clear();
  }
}

// The memory of nodes that this thread dropped. After the thread's end it neither keeps nor gives any.
class SpareNodes {
 public:
  ~SpareNodes() {
    while (void* memory = take()) ::operator delete(memory);
    count_ = most;
  }
  void* take() {
    if (first_ == nullptr) return nullptr;
    --count_;
    return std::exchange(first_, first_->next);
  }
  bool keep(void* memory) {
    if (count_ == most) return false;
    ++count_;
    first_ = new (memory) Spare{first_};
    return true;
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr size_t most = 0;  // so that it sees uses of nodes that are gone
#else
  static constexpr size_t most = 8192;  // 2 MiB
#endif
  struct Spare {
    Spare* next;
  };
  Spare* first_ = nullptr;
  size_t count_ = 0;
};

thread_local SpareNodes spare_nodes;

}  // namespace

void* Node::operator new(size_t bytes) {
  void* const spare = spare_nodes.take();
  return spare ? spare : ::operator new(bytes);
}

void Node::operator delete(void* memory) noexcept {
  if (!spare_nodes.keep(memory)) ::operator delete(memory);
}

Node::~Node() { release(std::move(inputs)); }

void Node::clear() {
  release(std::move(inputs));
  inputs.clear();
  attrs = {};
  value = nullptr;
  slot = nullptr;
  part = nullptr;
  known = nullptr;
  lost = nullptr;
}

bool NodeCounts::add_unless_gone() {
  uint64_t counted = counts_.load(std::memory_order_relaxed);
  while (static_cast<uint32_t>(counted) != 0)
    if (counts_.compare_exchange_weak(counted, counted + reference, std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
      return true;
  return false;
}

NodePtr NodePtr::make() { return adopt(new Node); }

void NodePtr::drop(Node* node, uint64_t what) {
  if (static_cast<uint32_t>(node->remove(what)) != 1) return;
  const bool known_elsewhere = node->weak_.load(std::memory_order_acquire) != 1;
  if (known_elsewhere) node->clear();
  if (!known_elsewhere || node->weak_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete node;
}

WeakNodePtr::WeakNodePtr(const NodePtr& node) : node_(node.get()) {
  if (node_) node_->weak_.fetch_add(1, std::memory_order_relaxed);
}

WeakNodePtr::WeakNodePtr(const WeakNodePtr& other) : node_(other.node_) {
  if (node_) node_->weak_.fetch_add(1, std::memory_order_relaxed);
}

WeakNodePtr::~WeakNodePtr() {
  if (node_ && node_->weak_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete node_;
}

NodePtr WeakNodePtr::lock() const {
  return node_ && node_->add_unless_gone() ? NodePtr::adopt(node_) : NodePtr();
}

bool WeakNodePtr::expired() const { return !node_ || node_->references() == 0; }

}  // namespace athanor
