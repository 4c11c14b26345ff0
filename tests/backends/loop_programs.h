// Loop programs for testing kernels: written by hand or random, with their memory and the comparison of
// results.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "athanor/kernels/loop_program.h"
#include "tests/backends/loop_reference.h"

namespace athanor::testing {

using Kind = LoopStep::Kind;

/// Writes programs. Every function returns the number of the register that it defines.
struct Builder {
  LoopProgram p;
  bool in_epilogue = false;

  explicit Builder(Ints space, std::vector<bool> reduced = {}) {
    p.reduced = reduced.empty() ? std::vector<bool>(space.size()) : std::move(reduced);
    p.space = std::move(space);
  }
  int add(LoopStep s) {
    (in_epilogue ? p.epilogue : p.body).push_back(std::move(s));
    return static_cast<int>(p.body.size() + p.reductions.size() + p.epilogue.size()) - 1;
  }
  int operand(int buffer, DType t, Ints strides, int64_t offset = 0) {
    p.buffers = std::max(p.buffers, buffer + 1);
    p.operands.push_back({buffer, t, offset, std::move(strides)});
    return static_cast<int>(p.operands.size()) - 1;
  }
  static DType register_type(DType t) { return computed_in(t); }
  int load(int buffer, DType t, Ints strides, int64_t offset = 0) {
    const int o = operand(buffer, t, std::move(strides), offset);
    LoopStep s;
    s.kind = Kind::load;
    s.type = register_type(t);
    s.operand = o;
    return add(s);
  }
  int constant(DType t, double value) {
    LoopStep s;
    s.kind = Kind::constant;
    s.type = t;
    s.value = value;
    s.int_value = static_cast<int64_t>(value);
    return add(s);
  }
  int index(Ints strides, int64_t offset = 0) {
    LoopStep s;
    s.kind = Kind::index;
    s.type = DType::i64;
    s.index_strides = std::move(strides);
    s.index_offset = offset;
    return add(s);
  }
  int op(Prim prim, DType t, int a, int b = -1, int c = -1) {
    LoopStep s;
    s.prim = prim;
    s.type = t;
    s.a = a;
    s.b = b;
    s.c = c;
    return add(s);
  }
  int reduce(Prim prim, int source, DType t) {
    p.reductions.push_back({prim, source, t});
    in_epilogue = true;
    return static_cast<int>(p.body.size() + p.reductions.size()) - 1;
  }
  void store(int source, int buffer, DType t, Ints strides, int64_t offset = 0) {
    const int o = operand(buffer, t, std::move(strides), offset);
    (in_epilogue ? p.epilogue_stores : p.stores).push_back({source, o});
  }
  void store_in_body(int source, int buffer, DType t, Ints strides) {
    const int o = operand(buffer, t, std::move(strides));
    p.stores.push_back({source, o});
  }
};

inline Ints dense(const Ints& space) { return contiguous_strides(Shape(space)); }

/// Strides of a dense array over the kept dimensions.
inline Ints dense_kept(const LoopProgram& p) {
  Ints strides(p.space.size());
  int64_t stride = 1;
  for (size_t d = p.space.size(); d-- > 0;)
    if (!p.reduced[d]) {
      strides[d] = stride;
      stride *= p.space[d];
    }
  return strides;
}

/// The memory that a program accesses. Each buffer has exactly the bytes that its operands reach, so the
/// sanitizers report accesses beyond them.
struct Memory {
  std::vector<std::vector<std::byte>> data;
  std::vector<void*> addresses() {
    std::vector<void*> result;
    for (auto& d : data) result.push_back(d.data());
    return result;
  }
};

template <class Rng>
inline void fill(std::vector<std::byte>& bytes, DType t, Rng& rng, double low, double high) {
  std::uniform_real_distribution<double> real(low, high);
  visit_dtype(t, [&](auto tag) {
    using T = decltype(tag);
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      reference::Value v;
      v.f = real(rng);
      v.i = t == DType::b8 ? (rng() & 1) : static_cast<int64_t>(std::floor(v.f));
      reference::write(bytes.data(), t, static_cast<int64_t>(at / sizeof(T)), v);
    }
  });
}

template <class Rng>
Memory memory_for(const LoopProgram& p, Rng& rng, double low = -3, double high = 3) {
  Memory m;
  m.data.resize(static_cast<size_t>(p.buffers));
  std::vector<DType> types(m.data.size(), DType::f32);
  for (const LoopOperand& o : p.operands) {
    int64_t last = o.offset, elements = 1;
    for (size_t d = 0; d < p.space.size(); ++d) {
      last += std::max<int64_t>(o.strides[d] * (p.space[d] - 1), 0);
      elements *= p.space[d];
    }
    auto& bytes = m.data[static_cast<size_t>(o.buffer)];
    types[static_cast<size_t>(o.buffer)] = o.dtype;
    if (elements > 0 || std::any_of(p.reduced.begin(), p.reduced.end(), [](bool r) { return r; }))
      bytes.resize(std::max(bytes.size(), static_cast<size_t>(last + 1) * size_of(o.dtype)));
  }
  for (size_t b = 0; b < m.data.size(); ++b) fill(m.data[b], types[b], rng, low, high);
  return m;
}

inline void expect_close(const LoopProgram& p, const Memory& got, const Memory& want, double tolerance,
                         const std::string& kernel) {
  std::vector<bool> checked(got.data.size());
  const auto check = [&](const LoopStore& s) {
    const LoopOperand& o = p.operands[static_cast<size_t>(s.operand)];
    const auto b = static_cast<size_t>(o.buffer);
    if (checked[b]) return;
    checked[b] = true;
    const auto n = static_cast<int64_t>(got.data[b].size() / size_of(o.dtype));
    for (int64_t i = 0; i < n; ++i) {
      const auto g = reference::read(got.data[b].data(), o.dtype, i),
                 w = reference::read(want.data[b].data(), o.dtype, i);
      bool same = g.i == w.i;
      if (is_float(o.dtype)) {
        double limit = tolerance * std::max(1.0, std::fabs(w.f));
        if (tolerance > 0 && o.dtype == DType::bf16) limit += std::fabs(w.f) / 128;
        if (tolerance > 0 && o.dtype == DType::f16) limit += std::fabs(w.f) / 1024 + 1e-7;
        same = std::isnan(w.f) ? std::isnan(g.f) : g.f == w.f || std::fabs(g.f - w.f) <= limit;
      }
      ASSERT_TRUE(same) << "buffer " << b << " element " << i << " of " << n << ": " << g.f << "/" << g.i
                        << " for " << w.f << "/" << w.i << "\n"
                        << to_string(p) << kernel;
    }
  };
  for (const LoopStore& s : p.stores) check(s);
  for (const LoopStore& s : p.epilogue_stores) check(s);
}

inline LoopProgram random_program(std::mt19937& rng) {
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  Ints space;
  std::vector<bool> reduced;
  int64_t total = 1;
  for (int d = 0, rank = 1 + pick(4); d < rank; ++d) {
    const int64_t extents[] = {1, 2, 3, 7, 10, 16, 33, 64, 300, 1500};
    int64_t e = extents[pick(10)];
    if (total * e > 20000) e = 1 + pick(3);
    total *= e;
    space.push_back(e);
    reduced.push_back(pick(2) == 0);
  }
  if (pick(2) == 0) reduced.assign(space.size(), false);
  const bool reduces = std::find(reduced.begin(), reduced.end(), true) != reduced.end();
  Builder b(space, reduced);
  const auto strides = [&](bool dense_only, bool kept_only) {
    std::vector<size_t> order(space.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (pick(2) == 0) std::shuffle(order.begin(), order.end(), rng);
    Ints s(space.size(), 0);
    int64_t stride = !dense_only && pick(4) == 0 ? 2 : 1;
    for (size_t k = order.size(); k-- > 0;) {
      const size_t d = order[k];
      if ((!dense_only && pick(4) == 0) || (kept_only && reduced[d])) continue;
      s[d] = stride;
      stride *= space[d];
    }
    return s;
  };
  const DType storage[] = {DType::f32, DType::f32, DType::f32, DType::bf16,
                           DType::f16, DType::f64, DType::i32};
  int buffer = 0;
  std::vector<int> values;
  for (int k = 0, n = 1 + pick(3); k < n; ++k) {
    const DType t = storage[pick(7)];
    const int r = b.load(buffer++, t, strides(false, false));
    values.push_back(Builder::register_type(t) == DType::f32 ? r : b.op(Prim::cast, DType::f32, r));
  }
  values.push_back(b.constant(DType::f32, 0.75));
  const size_t loads = values.size();
  const auto any = [&] { return values[static_cast<size_t>(pick(static_cast<int>(values.size())))]; };
  const auto grow = [&] {
    switch (pick(7)) {
      case 0:
        return b.op(Prim::add, DType::f32, any(), any());
      case 1:
        return b.op(Prim::sub, DType::f32, any(), any());
      case 2:
        return b.op(Prim::max, DType::f32, any(), any());
      case 3:
        return b.op(Prim::abs, DType::f32, any());
      case 4:
        return b.op(Prim::tanh, DType::f32, any());
      case 5:
        return b.op(Prim::mul, DType::f32, b.op(Prim::tanh, DType::f32, any()), any());
      default: {
        const auto l = [&] { return values[static_cast<size_t>(pick(static_cast<int>(loads)))]; };
        return b.op(Prim::where, DType::f32, b.op(Prim::less, DType::b8, l(), l()), any(), any());
      }
    }
  };
  for (int k = 0, n = 1 + pick(6); k < n; ++k) values.push_back(grow());
  const auto store_type = [&] { return storage[pick(4)]; };
  if (!reduces || pick(2) == 0)
    for (int k = 0, n = 1 + pick(2); k < n; ++k) {
      const DType t = store_type();
      b.store_in_body(any(), buffer++, t, strides(true, false));
    }
  if (!reduces) return b.p;
  const std::vector<int> sources = values;
  for (int k = 0, n = 1 + pick(2); k < n; ++k) {
    const Prim prims[] = {Prim::sum, Prim::reduce_max, Prim::reduce_min};
    const int s = sources[static_cast<size_t>(pick(static_cast<int>(sources.size())))];
    values.push_back(b.reduce(prims[pick(3)], s, DType::f32));
  }
  const int scaled = b.op(Prim::mul, DType::f32, values.back(), b.constant(DType::f32, 0.25));
  values = {scaled, any(), b.load(buffer++, DType::f32, strides(false, true))};
  values.push_back(b.op(Prim::add, DType::f32, any(), any()));
  b.store(values.back(), buffer++, store_type(), strides(true, true));
  return b.p;
}

}  // namespace athanor::testing
