#include "athanor/graph/node_ptr.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "athanor/graph/node.h"
#include "athanor/graph/tensor.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

Tensor number(float value) { return Tensor::from<float>({value}, {1}); }

TEST(NodePtr, CountsTensorsAsHandlesAndReferences) {
  Tensor x = number(1);
  const Node& node = *x.node();
  EXPECT_EQ(node.references(), 1U);
  EXPECT_EQ(node.handles(), 1U);
  {
    const Tensor copy = x;
    const std::vector<NodePtr> references{copy.node()};
    EXPECT_EQ(node.references(), 3U);
    EXPECT_EQ(node.handles(), 2U);
    const Tensor moved = std::exchange(x, Tensor());
    EXPECT_EQ(node.references(), 3U);
    EXPECT_EQ(node.handles(), 2U);
    x = moved;
  }
  EXPECT_EQ(node.references(), 1U);
  EXPECT_EQ(node.handles(), 1U);
}

TEST(NodePtr, EdgesAreReferencesWithoutHandles) {
  Tensor x = number(1), y = x + 1;
  Node* const node = x.node().get();
  x = Tensor();
  EXPECT_EQ(node->references(), 1U);
  EXPECT_EQ(node->handles(), 0U);
  EXPECT_EQ(y.item(), 2);
}

TEST(NodePtr, WeakPointersSeeTheEnd) {
  WeakNodePtr weak, other;
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.lock());
  {
    const Tensor x = number(3);
    weak = WeakNodePtr(x.node());
    other = weak;
    EXPECT_EQ(weak.lock().get(), x.node().get());
    EXPECT_EQ(x.node()->references(), 1U);
  }
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(other.lock());
}

// The value is freed with the last reference, though a weak pointer keeps the node's memory.
TEST(NodePtr, WeakPointersKeepNoValues) {
  Tensor x = number(3);
  const WeakNodePtr weak(x.node());
  const std::weak_ptr<Storage> value = x.node()->value;
  x = Tensor();
  EXPECT_TRUE(value.expired());
}

TEST(NodePtr, LongChainsAreDropped) {
  Tensor x = number(0);
  for (int i = 0; i < 300'000; ++i) x = -x;
  const WeakNodePtr last(x.node());
  x = Tensor();
  EXPECT_TRUE(last.expired());
}

TEST(NodePtr, ThreadsShareNodes) {
  const Tensor shared = number(1);
  WeakNodePtr weak;
  {
    const Tensor sum = shared + shared;
    weak = WeakNodePtr(sum.node());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([mine = sum, weak] {
        std::vector<Tensor> copies;
        for (int i = 0; i < 2000; ++i) {
          copies.push_back(mine);
          if (i % 3 == 0) copies.clear();
          const NodePtr locked = weak.lock();
          ASSERT_TRUE(locked);
          copies.emplace_back(locked);
          const Tensor other = mine * 2;  // made and dropped by this thread
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(sum.node()->handles(), 1U);
    EXPECT_EQ(sum.node()->references(), 1U);
  }
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(shared.node()->references(), 1U);
}

// A node may outlive the thread that made it, and be dropped by another one.
TEST(NodePtr, NodesOutliveTheirThread) {
  Tensor x;
  std::thread([&] { x = number(2) * 3; }).join();
  EXPECT_EQ(x.item(), 6);
}

}  // namespace
}  // namespace athanor
