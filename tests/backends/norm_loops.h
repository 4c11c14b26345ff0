// The loops of a norm and its gradients, which form a chain, and memory for them.
#pragma once
#include <random>
#include <vector>

#include "tests/backends/loop_programs.h"

namespace athanor::testing {

/// The buffers of a norm's loops.
enum NormBuffer : int {
  x,
  branch,
  gamma,
  sum,
  mean,
  scale,
  y,
  dy,
  product,
  shift,
  dx,
  dgamma,
  dbeta,
  dbias,
  count
};

/// Strides of full-size values, of one value for each row, and of one for each column.
struct Places {
  Ints whole, row, column;
  explicit Places(const Ints& space) : whole(dense(space)), row(dense(space)), column(space.size(), 0) {
    row.back() = 0;
    for (size_t d = 0; d + 1 < space.size(); ++d) row[d] /= space.back();
    column.back() = 1;
  }
};

/// A norm of x + branch and its gradients: three loops forward, three backward.
inline std::vector<LoopProgram> norm_loops(const Ints& space, DType narrow) {
  const Places at(space);
  const auto f32 = DType::f32;
  std::vector<bool> rows(space.size(), false), columns(space.size(), true);
  rows.back() = true, columns.back() = false;
  const double share = 1.0 / static_cast<double>(space.back());
  std::vector<LoopProgram> loops;
  const auto centred = [&](Builder& b) {
    return b.op(Prim::sub, f32, b.load(sum, f32, at.whole), b.load(mean, f32, at.row));
  };
  {
    Builder b(space, rows);
    const int s = b.op(Prim::add, f32, b.load(x, f32, at.whole), b.load(branch, narrow, at.whole));
    b.store(s, sum, f32, at.whole);
    const int total = b.reduce(Prim::sum, s, f32);
    b.store(b.op(Prim::mul, f32, total, b.constant(f32, share)), mean, f32, at.row);
    loops.push_back(b.p);
  }
  {
    Builder b(space, rows);
    const int d = centred(b);
    const int squares = b.reduce(Prim::sum, b.op(Prim::mul, f32, d, d), f32);
    const int variance = b.op(Prim::mul, f32, squares, b.constant(f32, share));
    const int root = b.op(Prim::sqrt, f32, b.op(Prim::add, f32, variance, b.constant(f32, 1e-3)));
    b.store(b.op(Prim::div, f32, b.constant(f32, 1), root), scale, f32, at.row);
    loops.push_back(b.p);
  }
  const auto normal = [&](Builder& b) {
    return b.op(Prim::mul, f32, centred(b), b.load(scale, f32, at.row));
  };
  {
    Builder b(space);
    b.store(b.op(Prim::mul, f32, normal(b), b.load(gamma, f32, at.column)), y, narrow, at.whole);
    loops.push_back(b.p);
  }
  {
    Builder b(space, columns);
    const int g = b.load(dy, narrow, at.whole);
    b.store(b.op(Prim::mul, f32, g, b.load(gamma, f32, at.column)), product, f32, at.whole);
    const int weighted = b.op(Prim::mul, f32, g, normal(b));
    const int of_gamma = b.reduce(Prim::sum, weighted, f32), of_beta = b.reduce(Prim::sum, g, f32);
    b.store(b.op(Prim::mul, f32, of_gamma, b.constant(f32, 0.5)), dgamma, f32, at.column);
    b.store(of_beta, dbeta, narrow, at.column);
    loops.push_back(b.p);
  }
  {
    Builder b(space, rows);
    const int total = b.reduce(Prim::sum, b.load(product, f32, at.whole), f32);
    b.store(b.op(Prim::mul, f32, total, b.constant(f32, share)), shift, f32, at.row);
    loops.push_back(b.p);
  }
  {
    Builder b(space, columns);
    const int d = b.op(Prim::sub, f32, b.load(product, f32, at.whole), b.load(shift, f32, at.row));
    const int result = b.op(Prim::mul, f32, d, b.load(scale, f32, at.row));
    b.store(result, dx, f32, at.whole);
    b.store(b.reduce(Prim::sum, result, f32), dbias, f32, at.column);
    loops.push_back(b.p);
  }
  for (LoopProgram& p : loops) p.buffers = count;
  return loops;
}

/// Memory for all loops: of each buffer, what the loop that reaches furthest needs.
inline Memory memory_for_all(const std::vector<LoopProgram>& loops, std::mt19937& rng) {
  Memory all;
  all.data.resize(static_cast<size_t>(loops.front().buffers));
  for (const LoopProgram& p : loops) {
    Memory one = memory_for(p, rng, -1, 2);
    for (size_t b = 0; b < one.data.size(); ++b)
      if (one.data[b].size() > all.data[b].size()) all.data[b] = std::move(one.data[b]);
  }
  return all;
}

}  // namespace athanor::testing
