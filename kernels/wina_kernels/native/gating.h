// The gate: scores, thresholds and lists of what is kept. Masks are those of selection.py, bit for bit.
#pragma once
#include "kernels.h"
#include "numbers.h"

namespace WINA_ISA {

// Set values [n] to stored numbers.
inline void widen(const void* from, int32_t format, int32_t n, float* values) {
  const auto* halves = static_cast<const uint16_t*>(from);
  if (format == WINA_FLOAT32) {
    memcpy(values, from, size_t(n) * 4);
    return;
  }
  int32_t i = 0;
  for (; i + LANES <= n; i += LANES)
    store(values + i, format == WINA_BFLOAT16 ? from_bfloat16(halves + i) : from_float16(halves + i));
  for (; i < n; ++i) values[i] = format == WINA_BFLOAT16 ? bfloat16_to_float(halves[i]) : half_to_float(halves[i]);
}

// Scores are not negative, so they order like their bits, in which NaN is above everything.
inline int32_t key_of(float value, float scale) { return int32_t(bits_of(value * scale) & 0x7FFFFFFF); }

inline void keys_of(const float* x, const float* scale, int32_t n, int32_t* keys) {
  if (scale)
    for (int32_t i = 0; i < n; ++i) keys[i] = key_of(x[i], scale[i]);
  else
    for (int32_t i = 0; i < n; ++i) keys[i] = int32_t(bits_of(x[i]) & 0x7FFFFFFF);
}

// Return the keep-th largest key, and in `equal` how many that equal it are among the largest.
inline int32_t kth_largest(const int32_t* keys, int32_t n, int32_t keep, int32_t* equal) {
  int32_t prefix = 0, left = keep;
  for (int shift : (const int[]){20, 9, 0}) {  // 11, 11 and 9 bits
    const int bits = shift ? 11 : 9;
    int32_t counts[1 << 11] = {};
    for (int32_t i = 0; i < n; ++i)
      if ((int64_t(keys[i]) >> (shift + bits)) == (int64_t(prefix) >> (shift + bits)))
        ++counts[(keys[i] >> shift) & ((1 << bits) - 1)];
    int32_t digit = (1 << bits) - 1;
    while (counts[digit] < left) left -= counts[digit--];
    prefix |= digit << shift;
  }
  *equal = left;
  return prefix;
}

// Set a bit of `marks` where the row keeps an input.
inline void mark(const wina_gate& gate, const float* x, int32_t row, int32_t n, int32_t* keys, uint8_t* marks) {
  const auto bit = uint8_t(1u << row);
  if (gate.mask) {
    for (int32_t i = 0; i < n; ++i) marks[i] |= gate.mask[int64_t(row) * n + i] ? bit : uint8_t(0);
    return;
  }
  keys_of(x, gate.scale, n, keys);
  if (!gate.keep) {
    const auto threshold = int32_t(bits_of(gate.threshold));
    for (int32_t i = 0; i < n; ++i) marks[i] |= keys[i] > threshold ? bit : uint8_t(0);
    return;
  }
  int32_t equal = 0;
  const int32_t least = kth_largest(keys, n, gate.keep, &equal);
  for (int32_t i = 0; i < n; ++i) {
    const bool tied = keys[i] == least && equal > 0;
    equal -= tied;
    marks[i] |= keys[i] > least || tied ? bit : uint8_t(0);
  }
}

inline int32_t list_marked(const wina_weight& weight, int32_t first, int32_t last, const uint8_t* marks, int32_t rows,
                           const float* x, int32_t count, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  for (int32_t k = first; k < last; ++k) {
    const int32_t i = weight.order ? weight.order[k] : k;
    lists.rows[count] = k, lists.marks[count] = marks[i];
    for (int32_t row = 0; row < rows; ++row)
      lists.values[int64_t(row) * n + count] = marks[i] >> row & 1 ? x[int64_t(row) * n + i] : 0.0f;
    count += marks[i] != 0;
  }
  return count;
}

// List one row's inputs above a threshold where they stand in order.
inline int32_t list_above(const wina_gate& gate, const float* x, int32_t first, int32_t last, int32_t count,
                          wina::Lists& lists) {
  const auto threshold = int32_t(bits_of(gate.threshold));
  int32_t i = first;
  if (APPENDS && count + LANES <= last)
    for (; i + LANES <= last; i += LANES) {
      const Floats values = load(x + i);
      const Floats scales = gate.scale ? load(gate.scale + i) : all(1.0f);
      count += append(above(values, scales, threshold), i, values, lists.rows + count, lists.values + count);
    }
  for (; i < last; ++i) {
    lists.rows[count] = i, lists.values[count] = x[i];
    count += key_of(x[i], gate.scale ? gate.scale[i] : 1.0f) > threshold;
  }
  return count;
}

inline void list(const wina_weight& weight, const wina_gate& gate, const void* x, int32_t x_format, int32_t rows,
                 void* scratch, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  auto* values = static_cast<float*>(scratch);
  auto* keys = reinterpret_cast<int32_t*>(values + int64_t(WINA_MOST_ROWS) * n);
  auto* marks = reinterpret_cast<uint8_t*>(keys + n);
  widen(x, x_format, n * rows, values);
  const bool plain = rows == 1 && !weight.order && !gate.mask && !gate.keep;
  if (!plain) {
    memset(marks, 0, size_t(n));
    for (int32_t row = 0; row < rows; ++row) mark(gate, values + int64_t(row) * n, row, n, keys, marks);
  }
  int32_t count = 0, first = 0;
  for (int32_t run = 0; run < weight.runs; ++run) {
    const int32_t last = first + weight.run[run].inputs;
    lists.starts[run] = count;
    count = plain ? list_above(gate, values, first, last, count, lists)
                  : list_marked(weight, first, last, marks, rows, values, count, lists);
    first = last;
  }
  lists.starts[weight.runs] = count;
  lists.kept = 0;
  if (rows == 1) {
    memset(lists.marks, 1, size_t(count));
    lists.kept = count;
  } else {
    for (int32_t k = 0; k < count; ++k) lists.kept += __builtin_popcount(lists.marks[k]);
  }
}

}  // namespace WINA_ISA
