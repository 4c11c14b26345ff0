// The code of a tile: a list of instructions on registers, lowered from the steps of a loop program.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/loops/tiling.h"

namespace athanor::loops {

struct Instruction {
  enum class Kind : uint8_t {
    constant,  // fills the register with `bits`
    point,     // the register is memory at the walker's position: nothing is copied
    splat,     // the one element at the walker's position
    gather,    // the tile's elements, copied
    index,     // the walker's values
    step,      // fn of the sources
    store,     // copies source 0 to the walker's position
  };
  Kind kind = Kind::step;
  bool uniform = false;  // the register holds uniform_lanes equal elements
  bool cached = false;   // for splat, gather, index: skipped while the walker does not move
  int dst = -1;          // register
  int walker = -1;       // of a load, an index or a store
  int target = -1;       // the walker at whose position the result is computed directly, or -1
  bool streams = false;  // copies the register to `target` past the caches, unless that memory is also read
  int64_t item = 0;      // bytes of an element of the register
  int sources = 0;
  std::array<int, max_sources> src{};
  unsigned uniform_sources = 0;
  StepFn fn = nullptr;
  uint64_t bits = 0;
};

struct Code {
  std::vector<Walker> walkers;
  std::vector<Instruction> once, each;  // before the first tile; on every tile
  std::vector<int64_t> registers;       // offsets into the scratch memory; -1: set while running
  int64_t scratch_bytes = 0;
  int64_t tile_bytes =
      0;  // bytes of one element in all registers and contiguous operands; these should fit the L1 cache
  double cost_ns = 0;  // estimate, per element
};

/// Builds Code step by step: merges equal steps, fuses multiplications with additions, comparisons with
/// selections, and pairs of arithmetic, and shares memory between registers that are not alive at the same
/// time.
class CodeBuilder {
 public:
  explicit CodeBuilder(const Tiling& tiling) : tiling_(tiling) {}

  // Each returns the number of a value.
  int constant(DType type, double value, int64_t int_value);
  int load(const LoopOperand& operand, DType type);
  int index(int64_t offset, const Ints& strides);
  int primitive(Prim prim, DType type, const std::vector<int>& sources);
  /// A full tile that the caller puts into the register before the code runs.
  int external(DType type);
  int step(const LoopStep& step, const std::vector<LoopOperand>& operands, const std::vector<int>& values);

  DType type(int value) const { return nodes_[static_cast<size_t>(value)].type; }
  void store(int value, const LoopOperand& operand);
  /// Requests that a register has a full tile of the value after the code has run. Returns the request's
  /// number.
  size_t keep(int value);
  /// The same; or requests two tiles whose product is the value, if nothing else needs the value.
  size_t keep_product(int value);
  /// Adds a walker.
  int walker(Walker w);

  /// `extra`: a walker that moves along although no instruction uses it, or -1.
  Code finish(int extra);
  // After finish():
  int walker_position(int w) const { return w < 0 ? -1 : positions_[static_cast<size_t>(w)]; }
  int kept_register(size_t wish) const { return register_of(kept_[wish].value); }
  /// The register of the second factor, or -1 if the value itself was kept.
  int factor_register(size_t wish) const {
    return kept_[wish].factor < 0 ? -1 : register_of(kept_[wish].factor);
  }
  int external_register(int value) const { return register_of(value); }

 private:
  struct Node {
    Instruction::Kind kind = Instruction::Kind::step;
    Opcode op = Opcode::copy;
    DType type = DType::f32;
    std::vector<int> sources;
    int walker = -1;
    uint64_t bits = 0;
    bool external = false;
    bool uniform = false, invariant = false;  // the same along a tile; the same in all tiles
    // Found by finish():
    std::optional<StepPair> pair;  // `op` is its second step
    int uses = 0, last_use = -1, direct = -1, reg = -1;
    bool persistent = false;
    bool same_value(const Node& o) const {
      return kind == o.kind && op == o.op && type == o.type && sources == o.sources && walker == o.walker &&
             bits == o.bits && !external && !o.external;
    }
  };
  struct Store {
    int value, walker;
    bool direct = false;
  };

  struct Wish {
    int value, factor = -1;
    bool product = false;
  };

  Node& node(int value) { return nodes_[static_cast<size_t>(value)]; }
  const Node& node(int value) const { return nodes_[static_cast<size_t>(value)]; }
  int register_of(int value) const { return node(value).reg; }
  int add(Node node);
  int apply(Opcode op, DType type, std::vector<int> sources);
  int convert(int value, DType type);
  bool is_constant(int value, double number) const;
  int full_tile(int value);

  void count_uses();
  void fuse();
  void pair_steps();
  void choose_direct_stores();
  void allocate(Code& code);
  void put_instructions(Code& code);
  void drop_unused_walkers(Code& code, int extra);

  const Tiling& tiling_;
  std::vector<Walker> walkers_;
  std::vector<int> positions_;  // for each of walkers_: its number in the code, -1 if unused
  std::vector<Node> nodes_;
  std::vector<Store> stores_;
  std::vector<Wish> kept_;
};

}  // namespace athanor::loops
