// The product with weights in planes: rows of codes of 2 bits, two of an input at a time as codes of 4 bits, 4 a + b. A
// row without the next one is paired with itself, 5 a; the centre of both is five times a row's.
//
// Sums stay in the order in which the vectors have them until a thread's last row. Rows are read in columns of a line of
// the cache, for which processors fetch further lines by themselves.
#pragma once
#include "codes.h"

namespace WINA_ISA {

constexpr int PAIRS = 16;        // of rows that are read side by side
constexpr int AHEAD = 6 * 64;    // bytes of a row between what is multiplied and what is fetched
constexpr int OUTPUTS = WIDTH * 4;  // of a block

struct PairRows {
  const uint8_t* at[2][PAIRS];  // first and second rows; the last four are filled up with those of the first pair
  int32_t quads;
};

inline PairRows pairs_of(const wina_run& run, const int32_t* listed, int32_t count) {
  PairRows rows;
  rows.quads = (count + 3) / 4;
  for (int32_t k = 0; k < PAIRS; ++k) {
    const int32_t pair = listed[k < count ? k : 0];
    rows.at[0][k] = row_at(run, pair >> 1);
    rows.at[1][k] = rows.at[0][k] + (pair & 1) * run.stride;
  }
  return rows;
}

// A block of rows, and what is fetched meanwhile.
struct PairBlock {
  const PairRows& rows;
  int64_t at;
  int32_t bytes;  // of the block that are there; anything stands behind them
  const PairRows& soon;
  int64_t soon_at;
};

inline Bytes load_first(const uint8_t* from, int32_t bytes) {
  alignas(64) uint8_t found[WIDTH] = {};
  memcpy(found, from, size_t(bytes));
  return load_bytes(found);
}

// Return four pairs of a block side by side, with half of the codes of each byte: the first and third, or the others.
template <int half, bool whole>
inline Tile tile_of(const PairBlock& block, int32_t quad) {
  Bytes codes[4];
  Tile tile;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const uint8_t *first = block.rows.at[0][4 * quad + k] + block.at, *second = block.rows.at[1][4 * quad + k] + block.at;
    const Bytes a = whole ? load_bytes(first) : load_first(first, block.bytes);
    const Bytes b = whole ? load_bytes(second) : load_first(second, block.bytes);
    codes[k] = half ? mixed(a, down(b), 0xCC) : mixed(up(a), b, 0xCC);
    if (WIDTH >= 64 || block.soon_at % 64 == 0) __builtin_prefetch(block.soon.at[half][4 * quad + k] + block.soon_at, 0, 2);
  }
  interleave(codes[0], codes[1], codes[2], codes[3], tile.v);
  return tile;
}

// Add a block to the sums of its outputs.
template <bool whole>
inline void add_pairs(const PairBlock& block, const Rounded& inputs, float centre, float* sums) {
  Floats products[2][2][4];  // of each half, by place
  multiply_block<4>(block.rows.quads, inputs, [&](int32_t quad) { return tile_of<0, whole>(block, quad); }, products[0]);
  multiply_block<4>(block.rows.quads, inputs, [&](int32_t quad) { return tile_of<1, whole>(block, quad); }, products[1]);
  const Floats shift = all(-inputs.sum * centre);
  for (int place = 0; place < 4; ++place) {
    const Floats step = all(inputs.step * unshifted<4>(place / 2));
    for (int v = 0; v < 4; ++v, sums += LANES)
      store(sums, plus(load(sums), add_product(products[place % 2][place / 2][v], step, shift)));
  }
}

// Bring the sums of m outputs, ordered in each block by place in a byte and then as `interleave` leaves the bytes, into
// their order.
inline void order(float* sums, int32_t m) {
  for (int32_t j = 0; j < m; j += OUTPUTS) {
    alignas(64) float found[2][OUTPUTS];
    for (int at = 0; at < OUTPUTS; at += 4 * LANES) {
      Floats values[4];
      for (int v = 0; v < 4; ++v) values[v] = load(sums + j + at + v * LANES);
      in_order(values);
      for (int v = 0; v < 4; ++v) store(found[0] + at + v * LANES, values[v]);
    }
    memcpy(sums + j, zipped<2>(found), sizeof found[0]);
  }
}

// Return where `order` finds the sum of an output.
inline int32_t unordered(int32_t j) {
  const int32_t byte = j % OUTPUTS / 4, lane = byte / 16 * 4 + byte % 4;
  return j / OUTPUTS * OUTPUTS + j % 4 * WIDTH + byte % 16 / 4 * LANES + lane;
}

// Add a pair's codes one by one, in floats: for inputs that cannot be rounded.
inline void add_exactly(const PairRows& rows, int32_t pair, float x, float centre, int32_t m, float* sums) {
  for (int32_t j = 0; j < m; ++j) {
    const int32_t code = 4 * code_at(rows.at[0][pair], 2, j) + code_at(rows.at[1][pair], 2, j);
    sums[unordered(j)] += x * (float(code) - centre);
  }
}

// Add a chunk's rows for one row of x; `soon` are the next chunk's.
inline void add_chunk(const PairRows& rows, const PairRows& soon, int32_t m, const Rounded& inputs, float centre,
                      float* sums) {
  const int64_t bytes = plane_bytes(2, m), end = bytes / WIDTH * WIDTH, ahead = AHEAD < end ? AHEAD : end;
  for (int64_t at = 0; at < end; at += WIDTH, sums += OUTPUTS) {
    const bool here = at + ahead < end;
    add_pairs<true>({rows, at, WIDTH, here ? rows : soon, at + ahead - (here ? 0 : end)}, inputs, centre, sums);
  }
  if (end < bytes) add_pairs<false>({rows, end, int32_t(bytes - end), soon, end}, inputs, centre, sums);
}

// Add the listed pairs at .. end of a weight in planes.
inline void add_planes(const wina_run& run, int32_t m, const wina::Lists& lists, int32_t at, int32_t end, int32_t batch,
                       float* sums) {
  const int64_t next = wina::padded(m);
  const float centre = 5 * run.centre;
  const auto count_at = [&](int32_t from) { return end - from < PAIRS ? end - from : PAIRS; };
  if (at < end) {
    PairRows rows = pairs_of(run, lists.rows + at, count_at(at));
    while (at < end) {
      const int32_t count = count_at(at), then = at + count;
      const PairRows soon = then < end ? pairs_of(run, lists.rows + then, count_at(then)) : rows;
      for (int32_t row = 0; row < batch; ++row) {
        const float* x = lists.values + row * lists.room + at;
        float* own = sums + row * next;
        Rounded inputs;
        if (!round_inputs(x, count, inputs)) {
          for (int32_t k = 0; k < count; ++k)
            if (lists.marks[at + k] >> row & 1) add_exactly(rows, k, x[k], centre, m, own);
        } else if (inputs.any) {
          add_chunk(rows, soon, m, inputs, centre, own);
        }
      }
      at = then, rows = soon;
    }
  }
  for (int32_t row = 0; row < batch; ++row) order(sums + row * next, m);
}

}  // namespace WINA_ISA
