// Nodes: the typed, immutable vertices of the graph. Tensors are handles on them.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/graph/dtype.h"
#include "athanor/graph/node_ptr.h"
#include "athanor/graph/precision.h"
#include "athanor/graph/segment.h"
#include "athanor/graph/shape.h"
#include "athanor/memory/storage.h"

namespace athanor {

struct HostArray;
struct Op;
class Tensor;

/// The type of a value. Every call checks it.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  Device device;
  bool operator==(const TensorType&) const = default;
  size_t bytes() const { return static_cast<size_t>(shape.size()) * size_of(dtype); }
};

/// "f32[64, 3, 32, 32]"
std::string to_string(const TensorType& type);

using AttrValue = std::variant<int64_t, double, bool, std::string, Ints, DType, Device>;

/// The arguments of an op that are not tensors: {"axis", 1}, {"stride", Ints{2, 2}}. Names are string
/// literals. There are few of them, so this is a plain list.
class Attrs {
 public:
  using Entry = std::pair<const char*, AttrValue>;
  /// An element of a braced list. Lists of integers are moved out of it instead of copied.
  struct Given {
    const char* name;
    mutable AttrValue value;
  };
  Attrs() = default;
  Attrs(std::initializer_list<Given> list) {
    entries_.reserve(list.size());
    for (const Given& given : list) entries_.emplace_back(given.name, std::move(given.value));
  }

  /// The value of `name`. Throws Error(internal) if it is missing or of another type than T.
  template <class T>
  const T& get(const char* name) const {
    const AttrValue& value = find(name);
    if (const T* typed = std::get_if<T>(&value)) return *typed;
    refuse_type(name, AttrValue(T()), value);
  }
  int64_t integer(const char* name) const { return get<int64_t>(name); }
  double number(const char* name) const { return get<double>(name); }
  bool flag(const char* name) const { return get<bool>(name); }
  const Ints& ints(const char* name) const { return get<Ints>(name); }
  const std::string& text(const char* name) const { return get<std::string>(name); }
  DType dtype(const char* name) const { return get<DType>(name); }
  Device device(const char* name) const { return get<Device>(name); }
  bool has(const char* name) const;
  /// Replaces or adds an entry.
  void set(const char* name, AttrValue value);

  const std::vector<Entry>& entries() const { return entries_; }
  bool operator==(const Attrs& other) const;
  /// Appends words that differ between any two lists of attributes.
  void append_to(std::vector<uint64_t>& words) const;
  uint64_t hash() const;

 private:
  const AttrValue& find(const char* name) const;
  [[noreturn]] static void refuse_type(const char* name, const AttrValue& of_wanted, const AttrValue& found);
  std::vector<Entry> entries_;
};

/// "axis=1, stride=[2, 2]"
std::string to_string(const Attrs& attrs);
/// Appends a text's length and characters.
void append_words(std::vector<uint64_t>& words, std::string_view text);

/// The part of a model that something belongs to, shared by its nodes: "layer1.0.conv1". Null: no part.
using PartName = std::shared_ptr<const std::string>;

/// Holds the sum of a parameter's gradients. Shared by the nodes that hold the parameter's successive values.
struct GradSlot;

/// A vertex: an op applied to inputs. Immutable except for its value, which evaluation sets.
struct Node : NodeCounts {
  const Op* op = nullptr;
  uint64_t id = 0;  // grows with creation, so inputs have smaller ids
  std::vector<NodePtr> inputs;
  std::shared_ptr<Storage> value;  // row-major elements, once evaluated
  std::shared_ptr<GradSlot> slot;  // set on leaves that collect gradients
  TensorType type;
  Precision precision = Precision::f32;  // set by the Autocast that it was made in
  bool requires_grad = false;
  bool spent = false;  // backward() has used it: inputs may be dropped once evaluated
  Segment segment;     // set by the SegmentScope that it was made in
  Attrs attrs;
  std::source_location where;  // the user's line that made it
  PartName part;               // the module that made it, or the parameter that it updates
  /// Integers that the host copied to another device, kept here too for checking labels.
  std::shared_ptr<const HostArray> known;
  /// Set if the node will never have a value: a step failed while it updated this node, or one that it needs,
  /// in place.
  std::shared_ptr<const std::string> lost;

  Node() = default;
  ~Node();
  /// Drops all that the node refers to.
  void clear();

  /// Memory of nodes that are gone is kept for the next ones: a step drops as many as it makes.
  static void* operator new(size_t bytes);
  static void operator delete(void* memory) noexcept;
};

inline NodeCounts& NodePtr::counts() const { return *node_; }

}  // namespace athanor
