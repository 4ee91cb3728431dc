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

inline int32_t at_least(const int32_t* keys, int32_t n, int32_t key) {
  int32_t count = 0;
  for (int32_t i = 0; i < n; ++i) count += keys[i] >= key;
  return count;
}

// Return the keep-th largest key, and in `equal` how many that equal it are among the largest. Bit by bit: counting all
// keys in vectors is faster than narrowing them down one by one.
inline int32_t kth_largest(const int32_t* keys, int32_t n, int32_t keep, int32_t* equal) {
  int32_t key = 0;
  bool exact = false;
  for (int32_t bit = 1 << 30; bit && !exact; bit >>= 1) {
    const int32_t count = at_least(keys, n, key | bit);
    if (count >= keep) key |= bit, exact = count == keep;
  }
  int32_t least = INT32_MAX;
  for (int32_t i = 0; i < n; ++i) least = keys[i] >= key && keys[i] < least ? keys[i] : least;
  *equal = keep - (least == INT32_MAX ? 0 : at_least(keys, n, least + 1));
  return least;
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

// Set the key above which a row's inputs are kept; return false if it leaves equal ones of which not all are.
inline bool key_of_gate(const wina_gate& gate, const float* x, int32_t n, int32_t* keys, int32_t* key) {
  *key = int32_t(bits_of(gate.threshold));
  if (!gate.keep) return true;
  keys_of(x, gate.scale, n, keys);
  int32_t equal = 0;
  const int32_t least = kth_largest(keys, n, gate.keep, &equal);
  *key = least - 1;
  return at_least(keys, n, least) == gate.keep;
}

// List one row's inputs above a key where they stand in order.
inline int32_t list_above(const wina_gate& gate, int32_t threshold, const float* x, int32_t first, int32_t last,
                          int32_t count, wina::Lists& lists) {
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
  int32_t key = 0;
  const bool plain = rows == 1 && !weight.order && !gate.mask && key_of_gate(gate, values, n, keys, &key);
  if (!plain) {
    memset(marks, 0, size_t(n));
    for (int32_t row = 0; row < rows; ++row) mark(gate, values + int64_t(row) * n, row, n, keys, marks);
  }
  int32_t count = 0, first = 0;
  for (int32_t run = 0; run < weight.runs; ++run) {
    const int32_t last = first + weight.run[run].inputs;
    lists.starts[run] = count;
    count = plain ? list_above(gate, key, values, first, last, count, lists)
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
