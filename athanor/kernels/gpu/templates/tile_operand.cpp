#include "athanor/kernels/gpu/templates/tile_operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t chunk_bytes = 16;
// Chunks that lie in as many bytes as local memory has banks: 32 of 4 bytes. Rows further apart share banks.
constexpr int64_t bank_chunks = 8;

bool is_mma(const MatrixUnit& unit) { return unit.form == MatrixUnit::Form::mma; }

// Lanes that hold other steps along k than their neighbours.
int64_t lane_groups(const LaneLayout& layout) {
  int64_t groups = 1;
  for (const LaneLayout::Cell& step : layout.lane)
    if (step.column != 0) groups *= 2;
  return groups;
}

}  // namespace

TileOperand::TileOperand(Source source, Tile tile, const MatrixUnit& unit)
    : source_(std::move(source)),
      tile_(tile),
      unit_(unit),
      size_(static_cast<int64_t>(size_of(source_.dtype))),
      chunk_(chunk_bytes / size_) {
  const bool across = source_.outer_stride == 1 && source_.k_stride != 1;
  from_along_k_ = !across;
  along_k_ = !across || !is_mma(unit) || size_ != 2;  // LOAD_MATRICES_TURNED turns elements of two bytes
  turned_ = along_k_ && !from_along_k_;
  if (turned_ && size_ == 1) {  // one by one
    turned_ = false;
    from_along_k_ = true;
  }
  step_ = from_along_k_ ? source_.k_stride : source_.outer_stride;
  if (step_ != 1) return;
  const int64_t other = from_along_k_ ? source_.outer_stride : source_.k_stride;
  const int64_t extent = from_along_k_ ? source_.k : source_.extent;
  vector_ = chunk_;
  const auto fits = [&](int64_t v) {
    return extent % v == 0 && other % v == 0 && source_.batch % v == 0 &&
           source_.alignment % (v * size_) == 0;
  };
  while (vector_ > 1 && !fits(vector_)) vector_ /= 2;
}

bool TileOperand::fits() const {
  const int64_t work = turned_ ? tile_.outer / chunk_ * (tile_.k / turns()) : rows() * chunks();
  if (tile_.k % fragment_k() != 0 || tile_.outer % chunk_ != 0 || work % tile_.items != 0) return false;
  // A row's chunks and the pattern of the swizzle repeat from one of an item's chunks to the next.
  if (!turned_ && tile_.items % (chunks() * bank_chunks) != 0) return false;
  if (turned_ && (tile_.k / turns() % 4 != 0 || tile_.items % (4 * (tile_.outer / chunk_)) != 0))
    return false;
  const int64_t reach = (tile_.outer * source_.outer_stride + tile_.k * source_.k_stride) * size_;
  return source_.outer_stride >= 0 && source_.k_stride >= 0 && reach < INT32_MAX;
}

int64_t TileOperand::elements() const { return rows() * chunks() * chunk_ + rows() / bank_chunks * extra(); }

int64_t TileOperand::units() const {
  if (is_mma(unit_)) return 2 * chunk_ / unit_.k;
  return std::max<int64_t>(1, chunk_ / unit_.a.elements);
}

int64_t TileOperand::share() const {
  return (turned_ ? tile_.outer / chunk_ * (tile_.k / turns()) : rows() * chunks()) / tile_.items;
}

std::string TileOperand::description() const {
  const int64_t bytes = vector_ * size_;
  std::string text = fmt::format("{} by {} bytes", source_.name, bytes);
  if (turned_) text += ", turned";
  return text;
}

std::string TileOperand::base(const std::string& row) const {
  std::string text = times(row, chunks() * chunk_);
  if (extra() != 0) text += fmt::format(" + {} / {} * {}", row, bank_chunks, extra());
  return text;
}

std::string TileOperand::swizzled(const std::string& row, const std::string& chunk) const {
  const int64_t together = std::max<int64_t>(1, bank_chunks / chunks());  // rows in one round of the banks
  const int64_t values = std::min(bank_chunks, chunks());
  if (values == 1) return chunk;
  return fmt::format("({} ^ {} % {})", chunk, divided(row, together), values);
}

std::string TileOperand::position(const std::string& row, const std::string& chunk) const {
  return fmt::format("{} + {} * {}", base(row), swizzled(row, chunk), chunk_);
}

// ---- Global to local memory ----

std::string TileOperand::item(const std::string& i) const {
  return share() == 1 ? "item" : fmt::format("(item + {} * {})", i, tile_.items);
}

std::string TileOperand::outer_of(const std::string& i) const {
  if (turned_) return fmt::format("{} / 4 % {} * {}", item(i), tile_.outer / chunk_, chunk_);
  return along_k_ ? fmt::format("{} / {}", item(i), chunks())
                  : fmt::format("{} % {} * {}", item(i), chunks(), chunk_);
}

std::string TileOperand::k_of(const std::string& i) const {
  if (turned_) {
    const int64_t outers = tile_.outer / chunk_;
    return fmt::format("({0} % 4 + {0} / {1} * 4) * {2}", item(i), 4 * outers, turns());
  }
  return along_k_ ? fmt::format("{} % {} * {}", item(i), chunks(), chunk_)
                  : fmt::format("{} / {}", item(i), chunks());
}

void TileOperand::declare(Code& code, const std::string& first) const {
  const std::string n = source_.name;
  if (outer_edge()) code.line(fmt::format("const int {}_left = {} - {};", n, source_.extent, first));
  code.line(fmt::format("u32 {}_from[{}];  // bytes from the tile's begin in memory", n, share()));
  code.line(fmt::format("int {0}_to[{1}];  // elements from its begin in local memory", n, share()));
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  code.line(fmt::format("const int outer = {}, k = {};", outer_of("i"), k_of("i")));
  std::string outer = "outer";
  // Rows beyond the matrix are read as copies of its last ones, and nobody stores what comes of them.
  if (outer_edge() && from_along_k_) outer = fmt::format("MIN(outer, {}_left - 1)", n);
  if (outer_edge() && !from_along_k_ && vector_ == chunk_)
    outer = fmt::format("MIN(outer, {}_left - {})", n, chunk_);
  code.line(fmt::format(
      "{}_from[i] = (u32){};", n,
      times(fmt::format("({} + {})", times(outer, source_.outer_stride), times("k", source_.k_stride)),
            size_)));
  if (turned_)
    code.line(fmt::format("{}_to[i] = {} + k % {};", n, base("outer"), chunk_));
  else
    code.line(fmt::format("{}_to[i] = {};", n,
                          along_k_ ? position("outer", fmt::format("k / {}", chunk_))
                                   : position("k", fmt::format("outer / {}", chunk_))));
  code.close();
}

void TileOperand::declare_held(Code& code) const {
  code.line(fmt::format("u32x4 {}_held[{}];", source_.name, share() * (turned_ ? turns() : 1)));
}

void TileOperand::load_chunk(Code& code, const std::string& held, const std::string& from,
                             const std::string& outer, const std::string& k, bool edge) const {
  const std::string n = source_.name;
  // What a vector that begins `e` elements on needs to lie inside the matrix; "" if it always does.
  const auto inside = [&](int64_t e) {
    std::string text;
    const auto need = [&](const std::string& condition) { text += (text.empty() ? "" : " && ") + condition; };
    if (edge) need(fmt::format("{} < k_left", plus(k, from_along_k_ ? e : 0)));
    if (outer_edge() && !from_along_k_ && vector_ < chunk_)
      need(fmt::format("{} < {}_left", plus(outer, e), n));
    return text;
  };
  const auto at = [&](int64_t e) { return plus(n + " + " + from, e * step_ * size_); };
  if (vector_ * size_ >= 4) {
    const int64_t registers = vector_ * size_ / 4;
    for (int64_t e = 0; e < chunk_; e += vector_) {
      const std::string read =
          fmt::format("READ_REGISTERS({}, {}, {}, {});", registers, held, e * size_ / 4, at(e));
      if (const std::string condition = inside(e); !condition.empty()) {
        if (e == 0) code.line(fmt::format("{} = (u32x4)(0u);", held));
        code.line(fmt::format("if ({}) {}", condition, read));
      } else {
        code.line(read);
      }
    }
    return;
  }
  const int64_t in_register = 4 / size_;
  for (int64_t r = 0; r < 4; ++r) {
    std::string value;
    for (int64_t e = r * in_register; e < (r + 1) * in_register; ++e) {
      std::string element = fmt::format("*(GLOBAL const {} *)({})", size_ == 2 ? "f16_bits" : "u8", at(e));
      if (const std::string condition = inside(e); !condition.empty())
        element = fmt::format("({} ? {} : 0)", condition, element);
      value += fmt::format("{}(u32){}", value.empty() ? "" : " | ", element);
      if (e % in_register != 0) value += fmt::format(" << {}", e % in_register * 8 * size_);
    }
    code.line(fmt::format("{}[{}] = {};", held, r, value));
  }
}

void TileOperand::load(Code& code, bool edge) const {
  const std::string n = source_.name;
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  if (edge || (outer_edge() && !from_along_k_ && vector_ < chunk_))
    code.line(fmt::format("const int outer = {}, k = {};", outer_of("i"), k_of("i")));
  for (int64_t t = 0; t < (turned_ ? turns() : 1); ++t)
    load_chunk(code, fmt::format("{}_held[{}]", n, plus(times("i", turned_ ? turns() : 1), t)),
               plus(n + "_from[i]", t * source_.k_stride * size_), "outer", plus("k", t), edge);
  code.close();
}

void TileOperand::store(Code& code, const std::string& at) const {
  const std::string n = source_.name;
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  if (!turned_) {
    code.line(fmt::format("WRITE_REGISTERS(4, {0} + {1}_to[i], {1}_held[i]);", plus("tiles", at), n));
  } else {
    std::string first = fmt::format("({}) / {}", k_of("i"), chunk_);
    // The swizzle below is of rows from a multiple of `bank_chunks` on. Chunks of fewer may begin between.
    if (const int64_t rounds = std::min(bank_chunks, chunks()); chunk_ < bank_chunks && rounds > 1)
      first += fmt::format(" ^ ({}) / {} % {}", outer_of("i"), std::max<int64_t>(1, bank_chunks / chunks()),
                           rounds);
    code.line(fmt::format("const int chunk = {};", first));
    for (int64_t e = 0; e < chunk_; ++e) {
      const int64_t together = std::max<int64_t>(1, bank_chunks / chunks());
      const int64_t values = std::min(bank_chunks, chunks());
      std::string value = fmt::format("{}_held[i][{}]", n, e);
      const int64_t permuted = e / together % values;
      if (turns() == 2)
        value = fmt::format("{0}_HALVES({1}_held[2 * i][{2}], {1}_held[2 * i + 1][{2}])",
                            e % 2 == 0 ? "LOW" : "HIGH", n, e / 2);
      code.line(fmt::format("WRITE_REGISTERS(1, {} + {} * {}, {});",
                            plus(plus("tiles", at) + " + " + n + "_to[i]", e * chunks() * chunk_),
                            permuted == 0 ? "chunk" : fmt::format("(chunk ^ {})", permuted), chunk_, value));
    }
  }
  code.close();
}

void TileOperand::copy(Code& code, const std::string& at, bool edge) const {
  const std::string n = source_.name;
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  const bool ends = outer_edge() && !from_along_k_ && vector_ < chunk_;
  if (edge || ends) code.line(fmt::format("const int outer = {}, k = {};", outer_of("i"), k_of("i")));
  for (int64_t e = 0; e < chunk_; e += vector_) {
    std::string condition;
    if (edge) condition = fmt::format("{} < k_left", plus("k", from_along_k_ ? e : 0));
    if (ends) condition += fmt::format("{}{} < {}_left", edge ? " && " : "", plus("outer", e), n);
    const std::string to = plus(plus("tiles", at) + " + " + n + "_to[i]", e);
    const std::string offset = plus(n + "_from[i]", e * size_);
    // A copy that brings zeros needs an address all the same.
    const std::string from = condition.empty() ? fmt::format("{} + {}", n, offset)
                                               : fmt::format("{} + ({} ? {} : 0)", n, condition, offset);
    code.line(condition.empty()
                  ? fmt::format("ASYNC_COPY({}, {}, {});", vector_ * size_, to, from)
                  : fmt::format("ASYNC_COPY_OR_ZERO({}, {}, {}, {});", vector_ * size_, to, from, condition));
  }
  code.close();
}

void TileOperand::advance(Code& code) const {
  const int64_t bytes = tile_.k * source_.k_stride * size_;
  code.line(fmt::format("{} += {}{};", source_.name, bytes, bytes > INT32_MAX ? "L" : ""));
}

// ---- Local memory to registers ----

void TileOperand::declare_fragments(Code& code, const std::string& first) const {
  const bool is_b = source_.name == "b";
  std::string row, chunk;
  if (is_mma(unit_)) {
    // In the order of an instruction's registers: of A first the rows, of B first the steps along k.
    const std::string near = "lane % 16", far = "lane / 16";
    const std::string apart = "lane % 8 + lane / 16 * 8", middle = "lane / 8 % 2";
    if (along_k_) {
      row = fmt::format("{} + {}", first, is_b ? apart : near);
      chunk = is_b ? middle : far;
    } else {
      row = is_b ? near : apart;
      chunk = fmt::format("({}) / {} + {}", first, chunk_, is_b ? far : middle);
    }
  } else {
    const int64_t pieces = std::max<int64_t>(1, unit_.a.elements / chunk_), groups = lane_groups(unit_.a);
    row = fmt::format("{} + lane % {}", first, unit_.m);
    chunk = groups == 1 ? "0" : fmt::format("lane / {} % {} * {}", unit_.m, groups, pieces);
  }
  const std::string n = source_.name;
  const int64_t together = std::max<int64_t>(1, bank_chunks / chunks());
  code.line(fmt::format("const int {0}_row = {1}, {0}_chunk = {2};", n, row, chunk));
  code.line(fmt::format("const int {0}_at = {1}, {0}_swizzle = {2} % {3};", n, base(n + "_row"),
                        divided(n + "_row", together), std::min(bank_chunks, chunks())));
}

void TileOperand::read_fragments(Code& code, int64_t count, const std::string& step,
                                 const std::string& at) const {
  const std::string n = source_.name;
  const bool mma = is_mma(unit_);
  const int64_t pieces = mma ? 1 : std::max<int64_t>(1, unit_.a.elements / chunk_);
  const int64_t high = mma ? 16 : unit_.m;  // rows or columns of a fragment
  const int64_t row = chunks() * chunk_, across = fragment_k() / chunk_;
  code.line(fmt::format("u32x{} {}_part[{}];", 4 * pieces, n, count));
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", count));
  const auto place = [&](int64_t piece) {
    const std::string start = plus("tiles", at) + " + " + n + "_at";
    if (along_k_)
      return fmt::format("{0} + i * {1} + (({2}) ^ {3}_swizzle) * {4}", start,
                         high * row + high / bank_chunks * extra(),
                         plus(times(step, across) + " + " + n + "_chunk", piece), n, chunk_);
    return fmt::format("{0} + {1} * {2} + (({3}_chunk + i * {4}) ^ {3}_swizzle) * {5}", start, step,
                       fragment_k() * row, n, high / chunk_, chunk_);
  };
  if (mma) {
    code.line(
        fmt::format("{}({}_part[i], {});", along_k_ ? "LOAD_MATRICES" : "LOAD_MATRICES_TURNED", n, place(0)));
  } else if (pieces == 1) {
    code.line(fmt::format("READ_REGISTERS(4, {}_part[i], 0, {});", n, place(0)));
  } else {
    code.line("u32x4 low, high;");
    code.line(fmt::format("READ_REGISTERS(4, low, 0, {});", place(0)));
    code.line(fmt::format("READ_REGISTERS(4, high, 0, {});", place(1)));
    code.line(fmt::format("{}_part[i] = JOINED(low, high);", n));
  }
  code.close();
}

}  // namespace athanor::gpu
