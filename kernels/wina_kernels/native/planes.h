// The product with weights in planes: rows of codes of 2 bits, two of an input at a time as codes of 4 bits, 4 a + b. A
// row without the next one is paired with itself, 5 a; the centre of both is five times a row's.
//
// Sums stay in the order in which the vectors have them until a thread's last row. Rows are read in columns of a line of
// the cache, and fetched as those of codes are.
#pragma once
#include "codes.h"

namespace WINA_ISA {

constexpr int PAIRS = 16;        // of rows that are read side by side
constexpr int OUTPUTS = WIDTH * 4;  // of a column

struct PairRows {
  const uint8_t* at[2][PAIRS];  // first and second rows, filled up with those of the first pair
  int32_t quads;

  int32_t lines() const { return 8 * quads; }  // of a column
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

// Return four pairs of a column side by side, with half of the codes of each byte: the first and third, or the others.
template <int half, bool whole>
inline Tile tile_of(const Column<PairRows>& column, int32_t quad) {
  Bytes codes[4];
  Tile tile;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const Bytes a = load_column<whole>(column.rows.at[0][4 * quad + k] + column.at, column.bytes);
    const Bytes b = load_column<whole>(column.rows.at[1][4 * quad + k] + column.at, column.bytes);
    codes[k] = half ? mixed(a, down(b), 0xCC) : mixed(up(a), b, 0xCC);
    fetch<SECOND>(column.soon.at[half][4 * quad + k], column.soon_at);
    fetch<NEAREST>(column.rows.at[half][4 * quad + k], column.at + 64);
  }
  interleave(codes[0], codes[1], codes[2], codes[3], tile.v);
  return tile;
}

// Add a column to the sums of its outputs.
template <bool whole>
inline void add_pairs(const Column<PairRows>& column, const Rounded& inputs, float centre, float* sums) {
  const int32_t quads = column.rows.quads;
  Floats products[2][2][4];  // of each half, by place
  multiply_column<4>(quads, inputs, [&](int32_t quad) { return tile_of<0, whole>(column, quad); }, products[0]);
  multiply_column<4>(quads, inputs, [&](int32_t quad) { return tile_of<1, whole>(column, quad); }, products[1]);
  const Floats shift = all(-inputs.sum * centre);
  for (int place = 0; place < 4; ++place) {
    const Floats step = all(inputs.step * unshifted<4>(place / 2));
    for (int v = 0; v < 4; ++v, sums += LANES)
      store(sums, plus(load(sums), add_product(products[place % 2][place / 2][v], step, shift)));
  }
}

// Bring the sums of m outputs, ordered in each column by place in a byte and then as `interleave` leaves the bytes, into
// their order.
inline void order(float* sums, int32_t m) {
  for (int32_t j = 0; j < m; j += OUTPUTS) {
    alignas(64) float found[2][OUTPUTS];
    Floats values[4][4];  // by place
    for (int place = 0; place < 4; ++place) {
      for (int v = 0; v < 4; ++v) values[place][v] = load(sums + j + place * WIDTH + v * LANES);
      in_order(values[place]);
    }
    memcpy(sums + j, zipped<2>(values, found), sizeof found[0]);
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
  each_column(rows, soon, nullptr, plane_bytes(2, m), [&](auto whole, const Column<PairRows>& column) {
    add_pairs<decltype(whole)::value>(column, inputs, centre, sums + 4 * column.at);
  });
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
