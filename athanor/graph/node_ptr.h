// References to nodes. A step makes and drops thousands of them, so copying one is a single atomic operation,
// also for a tensor, which is counted twice: as a reference, and as a handle.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace athanor {

struct Node;

/// How many refer to a node.
class NodeCounts {
 public:
  static constexpr uint64_t reference = 1, handle = uint64_t{1} << 32;

  /// How many NodePtrs and Tensors keep the node alive.
  uint32_t references() const { return static_cast<uint32_t>(counts_.load(std::memory_order_relaxed)); }
  /// How many of them are Tensors.
  uint32_t handles() const { return static_cast<uint32_t>(counts_.load(std::memory_order_relaxed) >> 32); }

 private:
  friend class NodePtr;
  friend class WeakNodePtr;
  friend class Tensor;
  void add(uint64_t what) { counts_.fetch_add(what, std::memory_order_relaxed); }
  /// Returns what was counted before.
  uint64_t remove(uint64_t what) { return counts_.fetch_sub(what, std::memory_order_acq_rel); }
  bool add_unless_gone();

  std::atomic<uint64_t> counts_{reference};
  std::atomic<uint32_t> weak_{1};  // WeakNodePtrs, and 1 for all references together
};

/// Keeps a node alive. Null by default.
class NodePtr {
 public:
  NodePtr() = default;
  NodePtr(std::nullptr_t) {}
  NodePtr(const NodePtr& other) : node_(other.node_) {
    if (node_) counts().add(NodeCounts::reference);
  }
  NodePtr(NodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePtr& operator=(NodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePtr() {
    if (node_) drop(node_, NodeCounts::reference);
  }

  /// A new node.
  static NodePtr make();

  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const NodePtr& other) const = default;

 private:
  friend class WeakNodePtr;
  friend class Tensor;
  /// Takes over a reference that is counted already.
  static NodePtr adopt(Node* node) {
    NodePtr result;
    result.node_ = node;
    return result;
  }
  NodeCounts& counts() const;
  /// Removes a reference, or a reference and a handle.
  static void drop(Node* node, uint64_t what);

  Node* node_ = nullptr;
};

/// Knows a node, but does not keep it alive.
class WeakNodePtr {
 public:
  WeakNodePtr() = default;
  explicit WeakNodePtr(const NodePtr& node);
  WeakNodePtr(const WeakNodePtr& other);
  WeakNodePtr(WeakNodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  WeakNodePtr& operator=(WeakNodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~WeakNodePtr();

  /// Null if the node is gone.
  NodePtr lock() const;
  bool expired() const;

 private:
  Node* node_ = nullptr;
};

}  // namespace athanor
