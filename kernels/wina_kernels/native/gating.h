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

// Return how many keys are at least `key`; counts have the keys' width, so that vectors hold as many.
template <class Key>
inline int32_t at_least(const Key* keys, int32_t n, Key key) {
  constexpr int32_t block = 1 << 14;
  int32_t count = 0;
  for (int32_t first = 0; first < n; first += block) {
    const int32_t last = first + block < n ? first + block : n;
    Key own = 0;
    for (int32_t i = first; i < last; ++i) own = Key(own + (keys[i] >= key));
    count += own;
  }
  return count;
}

// Return the keep-th largest key, whose bits above `bit` are those of `key`.
template <class Key>
inline Key largest(const Key* keys, int32_t n, int32_t keep, Key key, int bit) {
  for (; bit >= 0; --bit)
    if (at_least(keys, n, Key(key | Key(1) << bit)) >= keep) key = Key(key | Key(1) << bit);
  return key;
}

// The lowest key that is kept, how many that equal it are, and whether others are not.
struct Lowest {
  int32_t key, equal;
  bool tied;
};

// Find the keep-th largest key: its upper half among all, then the lower one among those that share it. `spare` has room
// for 2 n keys.
inline Lowest kth_largest(const int32_t* keys, int32_t n, int32_t keep, int32_t* spare) {
  auto* upper = reinterpret_cast<int16_t*>(spare + n);
  for (int32_t i = 0; i < n; ++i) upper[i] = int16_t(keys[i] >> 16);
  const int16_t half = largest(upper, n, keep, int16_t(0), 14);
  const int32_t above = half < INT16_MAX ? at_least(upper, n, int16_t(half + 1)) : 0;
  int32_t count = 0;
  for (int32_t first = 0; first < n; first += 64) {
    const int32_t last = first + 64 < n ? first + 64 : n;
    int16_t own = 0;
    for (int32_t i = first; i < last; ++i) own = int16_t(own + (upper[i] == half));
    for (int32_t i = first; own; ++i)
      if (upper[i] == half) spare[count++] = keys[i], --own;
  }
  const int32_t key = largest(spare, count, keep - above, int32_t(half) << 16, 15);
  const int32_t kept = at_least(spare, count, key), greater = key < INT32_MAX ? at_least(spare, count, key + 1) : 0;
  return {key, keep - above - greater, kept > keep - above};
}

// The lowest key above the gate's threshold.
inline int32_t lowest_above(const wina_gate& gate) { return int32_t(bits_of(gate.threshold) + 1u); }

// Find the lowest key that a gate without a mask keeps: above the threshold, or the keep-th largest if fewer are above.
// `spare` as for `kth_largest`.
inline Lowest lowest_kept(const wina_gate& gate, const int32_t* keys, int32_t n, int32_t* spare) {
  const Lowest above{lowest_above(gate), n, false};
  if (!gate.keep || (gate.threshold >= 0 && at_least(keys, n, above.key) >= gate.keep)) return above;
  return kth_largest(keys, n, gate.keep, spare);
}

// Set a bit of `marks` where the row keeps an input. `keys` has room for 3 n numbers.
inline void mark(const wina_gate& gate, const float* x, int32_t row, int32_t n, int32_t* keys, uint8_t* marks) {
  const auto bit = uint8_t(1u << row);
  if (gate.mask) {
    for (int32_t i = 0; i < n; ++i) marks[i] |= gate.mask[int64_t(row) * n + i] ? bit : uint8_t(0);
    return;
  }
  keys_of(x, gate.scale, n, keys);
  Lowest lowest = lowest_kept(gate, keys, n, keys + n);
  if (!lowest.tied) {
    for (int32_t i = 0; i < n; ++i) marks[i] |= keys[i] >= lowest.key ? bit : uint8_t(0);
    return;
  }
  for (int32_t i = 0; i < n; ++i) {
    const bool equal = keys[i] == lowest.key && lowest.equal > 0;
    lowest.equal -= equal;
    marks[i] |= keys[i] > lowest.key || equal ? bit : uint8_t(0);
  }
}

inline int32_t list_marked(const wina_weight& weight, int32_t first, int32_t last, const uint8_t* marks, int32_t rows,
                           const float* x, int32_t count, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  for (int32_t k = first; k < last; ++k) {
    const int32_t i = weight.order ? weight.order[k] : k;
    lists.rows[count] = k, lists.marks[count] = marks[i];
    for (int32_t row = 0; row < rows; ++row)
      lists.values[row * lists.room + count] = marks[i] >> row & 1 ? x[int64_t(row) * n + i] : 0.0f;
    count += marks[i] != 0;
  }
  return count;
}

// Set the key above which a row's inputs are kept; return false if it leaves equal ones of which not all are.
inline bool key_of_gate(const wina_gate& gate, const float* x, int32_t n, int32_t* keys, int32_t* key) {
  *key = int32_t(bits_of(gate.threshold));
  if (!gate.keep) return true;
  keys_of(x, gate.scale, n, keys);
  const Lowest lowest = lowest_kept(gate, keys, n, keys + n);
  *key = lowest.key - 1;
  return !lowest.tied;
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

// Set out [n] to a row of x with 0 for inputs that are not kept; return how many are kept. `scratch` has room for 4 n
// numbers.
template <class Number>
inline int32_t gate_row(const wina_gate& gate, const Number* x, int32_t format, int32_t n, int32_t* scratch, Number* out) {
  auto* const values = reinterpret_cast<float*>(scratch);
  int32_t* const keys = scratch + n;
  widen(x, format, n, values);
  keys_of(values, gate.scale, n, keys);
  Lowest lowest = lowest_kept(gate, keys, n, keys + n);
  int32_t kept = 0;
  for (int32_t i = 0; i < n; ++i) {
    const bool keep = keys[i] >= lowest.key;
    kept += keep;
    out[i] = keep ? x[i] : Number(0);
  }
  if (!lowest.tied) return kept;
  for (int32_t i = 0; i < n; ++i)
    if (keys[i] == lowest.key && lowest.equal-- <= 0) out[i] = 0, --kept;
  return kept;
}

inline void gate_rows(const wina_gate& gate, const wina::Rows& x, int64_t first, int64_t last, int32_t* scratch) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t at = row * x.inputs;
    const bool wide = x.format == WINA_FLOAT32;
    if (x.whole && x.whole[row]) {
      const int64_t size = wide ? 4 : 2;
      memcpy(static_cast<uint8_t*>(x.out) + at * size, static_cast<const uint8_t*>(x.x) + at * size, size_t(x.inputs * size));
      x.kept[row] = x.inputs;
    } else if (wide) {
      x.kept[row] = gate_row(gate, static_cast<const float*>(x.x) + at, x.format, x.inputs, scratch,
                             static_cast<float*>(x.out) + at);
    } else {
      x.kept[row] = gate_row(gate, static_cast<const uint16_t*>(x.x) + at, x.format, x.inputs, scratch,
                             static_cast<uint16_t*>(x.out) + at);
    }
  }
}

}  // namespace WINA_ISA
