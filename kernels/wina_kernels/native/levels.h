// The gate of weights in planes: levels, the planes that are read of each input, and lists of their rows.
#pragma once
#include <math.h>

#include "gating.h"

namespace WINA_ISA {

constexpr int LADDER = WINA_MOST_PLANES - 1;

// The pairs of rows that `add_planes` takes for an input, by level. A listed pair is twice its first row, plus 1 if the
// second belongs to it; its value is the input times 4^-p of the second row, or a fifth of the first's if it is alone.
constexpr int MOST_PAIRS = 4;  // written at once; only those that are read stay
struct Pairs {
  int32_t rows[MOST_PAIRS];
  float factors[MOST_PAIRS];
};
constexpr Pairs PAIRS_OF[WINA_MOST_PLANES + 1] = {
    {}, {{0}, {0x1p0f / 5}}, {{1}, {0x1p-2f}}, {{1, 4}, {0x1p-2f, 0x1p-4f / 5}}, {{1, 5}, {0x1p-2f, 0x1p-6f}},
    {{1, 5, 8}, {0x1p-2f, 0x1p-6f, 0x1p-8f / 5}}, {{1, 5, 9}, {0x1p-2f, 0x1p-6f, 0x1p-10f}},
};

// Drop inputs with the lowest key that are not kept.
inline void drop_equal(const int32_t* keys, int32_t n, Lowest lowest, uint8_t* levels) {
  for (int32_t i = 0; i < n; ++i)
    if (keys[i] == lowest.key && lowest.equal-- <= 0) levels[i] = 0;
}

// Set levels [n] of a row of x: 0 for dropped inputs. `keys` has room for 3 n numbers.
inline void grade(const wina_weight& weight, const wina_gate& gate, const float* x, int32_t row, int32_t* keys,
                  uint8_t* levels) {
  const int32_t n = weight.inputs;
  const int32_t* starts = weight.planes.starts;
  if (gate.mask || (!gate.keep && gate.threshold < 0)) {
    const uint8_t* mask = gate.mask ? gate.mask + int64_t(row) * n : nullptr;
    for (int32_t i = 0; i < n; ++i) levels[i] = !mask || mask[i] ? uint8_t(starts[i + 1] - starts[i]) : uint8_t(0);
    return;
  }
  keys_of(x, gate.scale, n, keys);
  const Lowest lowest = lowest_kept(gate, keys, n, keys + n);
  const float boundary = lowest.key == lowest_above(gate) ? gate.threshold : float_of(uint32_t(lowest.key));
  float limits[LADDER];
  for (int rung = 0; rung < LADDER; ++rung) limits[rung] = boundary * weight.planes.ladder[rung];
  for (int32_t i = 0; i < n; ++i) {
    const float score = float_of(uint32_t(keys[i]));
    int32_t level = 1;
    for (int rung = 0; rung < LADDER; ++rung) level += score >= limits[rung] ? 1 : 0;
    const int32_t most = starts[i + 1] - starts[i];
    level = level < most ? level : most;
    levels[i] = uint8_t(keys[i] >= lowest.key ? level : 0);
  }
  if (lowest.tied) drop_equal(keys, n, lowest, levels);
}

// List the planes that one row reads.
inline int32_t list_one(const int32_t* starts, const float* x, const uint8_t* levels, int32_t n, wina::Lists& lists) {
  int32_t* const rows = lists.rows;
  float* const values = lists.values;
  int32_t count = 0;
  for (int32_t i = 0; i < n; ++i) {
    const Pairs& pairs = PAIRS_OF[levels[i]];
    const int32_t start = 2 * starts[i];
    const float value = x[i];
    for (int k = 0; k < MOST_PAIRS; ++k) rows[count + k] = start + pairs.rows[k];
    for (int k = 0; k < MOST_PAIRS; ++k) values[count + k] = value * pairs.factors[k];
    count += (levels[i] + 1) / 2;
  }
  memset(lists.marks, 1, size_t(count));
  return count;
}

// List the planes that any of the rows reads, two together where the same rows read both.
inline int32_t list_any(const int32_t* starts, const float* x, const uint8_t* levels, int32_t n, int32_t rows,
                        wina::Lists& lists) {
  int32_t count = 0;
  for (int32_t i = 0; i < n; ++i) {
    uint8_t readers[WINA_MOST_PLANES + 2] = {};
    for (int32_t row = 0; row < rows; ++row)
      for (int p = 0; p < levels[int64_t(row) * n + i]; ++p) readers[p] |= uint8_t(1u << row);
    for (int p = 0; readers[p]; ++p) {
      const bool pair = p % 2 == 0 && readers[p] == readers[p + 1];
      const float factor = pair ? ldexpf(1, -2 * (p + 1)) : ldexpf(1, -2 * p) / 5;
      for (int32_t row = 0; row < rows; ++row)
        lists.values[row * lists.room + count] = readers[p] >> row & 1 ? x[int64_t(row) * n + i] * factor : 0.0f;
      lists.marks[count] = readers[p];
      lists.rows[count++] = 2 * (starts[i] + p) + pair;
      p += pair;
    }
  }
  return count;
}

// Fill the lists with the planes that are read of x [rows, n], which gets the weight's scales.
inline void list_planes(const wina_weight& weight, const wina_gate& gate, float* x, int32_t rows, int32_t* keys,
                        uint8_t* levels, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  lists.kept = lists.read = 0;
  for (int32_t row = 0; row < rows; ++row) {
    float* own = x + int64_t(row) * n;
    uint8_t* graded = levels + int64_t(row) * n;
    grade(weight, gate, own, row, keys, graded);
    int32_t i = 0, kept = 0, read = 0;
    for (; i + LANES <= n; i += LANES) store(own + i, times(load(own + i), from_float16(weight.planes.scale + i)));
    for (; i < n; ++i) own[i] *= half_to_float(weight.planes.scale[i]);
    for (i = 0; i < n; ++i) kept += graded[i] != 0, read += graded[i];
    lists.kept += kept, lists.read += read;
  }
  const int32_t* starts = weight.planes.starts;
  lists.starts[0] = 0;
  lists.starts[1] = rows == 1 ? list_one(starts, x, levels, n, lists) : list_any(starts, x, levels, n, rows, lists);
}

}  // namespace WINA_ISA
