// The product with rows of codes. A chunk of rows of one group is multiplied in integers, plane by plane, and its scales
// and zeros are applied once: y += scale (step sum(q code) - (centre + zero) step sum(q)).
#pragma once
#include "columns.h"

namespace WINA_ISA {

inline Floats scales(const void* from, int32_t format, int64_t at) {
  if (format == WINA_FLOAT32) return load(static_cast<const float*>(from) + at);
  const auto* halves = static_cast<const uint16_t*>(from) + at;
  return format == WINA_BFLOAT16 ? from_bfloat16(halves) : from_float16(halves);
}

inline int64_t plane_bytes(int32_t bits, int32_t m) { return (int64_t(m) * bits + 7) / 8; }

inline int64_t bytes_of(int32_t format) { return format == WINA_FLOAT32 ? 4 : 2; }

// Scales or zeros of a chunk's group; null without.
struct Numbers {
  const uint8_t* at;
  int32_t format;
};

inline Numbers numbers_of(const void* numbers, int32_t format, int64_t stride, int32_t group) {
  return {numbers ? static_cast<const uint8_t*>(numbers) + group * stride : nullptr, format};
}

// What a chunk's plane needs besides its codes.
struct Plane {
  int32_t shift;  // bits of the lower planes
  bool lowest;
  Numbers scale, zero;
  float centre;
};

// Add a column's codes to the sums y of its outputs for one row of x; scale and zero are the column's.
template <int bits, class TileOf>
inline void add_column(const Plane& plane, int32_t quads, TileOf&& tile_of, Numbers scale, Numbers zero,
                       const Rounded& inputs, float* y) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  Floats products[each][4];
  multiply_column<bits>(quads, inputs, tile_of, products);
  alignas(64) float found[2][outputs];
  for (int place = 0; place < each; ++place) {
    in_order(products[place]);
    if (place)
      for (int v = 0; v < 4; ++v) products[place][v] = times(products[place][v], all(unshifted<bits>(place)));
  }
  const float* from = zipped<bits>(products, found);
  const Floats step = all(inputs.step * float(1 << plane.shift));
  const Floats shift = all(plane.lowest ? -inputs.sum * plane.centre : 0.0f), sum = all(-inputs.sum);
  for (int at = 0; at < outputs; at += LANES) {
    Floats value = add_product(load(from + at), step, shift);
    if (zero.at && plane.lowest) value = add_product(scales(zero.at, zero.format, at), sum, value);
    store(y + at, add_product(value, scales(scale.at, scale.format, at), load(y + at)));
  }
}

// The numbers of outputs j .. j + outputs; where fewer are left, a copy in `last` with zeros behind.
inline Numbers numbers_from(Numbers numbers, int32_t j, int32_t outputs, int32_t m, uint8_t* last) {
  if (!numbers.at) return numbers;
  const int64_t bytes = bytes_of(numbers.format);
  numbers.at += j * bytes;
  if (j + outputs <= m) return numbers;
  memcpy(last, numbers.at, size_t((m - j) * bytes));
  return {last, numbers.format};
}

template <int bits>
inline void add_plane(const Plane& plane, const ChunkRows& rows, int32_t m, const Rounded* inputs, int32_t batch,
                      float* sums, int64_t next, const ChunkRows& following) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  alignas(64) uint8_t last_scale[4 * outputs] = {}, last_zero[4 * outputs] = {};
  const bool in_order = plane.lowest && following.joined && following.quads == rows.quads;
  const uint8_t* const joined = in_order ? following.at[0] : nullptr;
  each_column(rows, following, joined, plane_bytes(bits, m), [&](auto is_whole, const Column<ChunkRows>& column) {
    constexpr bool whole = decltype(is_whole)::value;
    const auto j = int32_t(column.at * each);
    const Numbers scale = numbers_from(plane.scale, j, outputs, m, last_scale);
    const Numbers zero = numbers_from(plane.zero, j, outputs, m, last_zero);
    const auto tile_of = [&](int32_t quad) { return tile_at<bits, whole>(column, quad); };
    if (AT_ONCE<bits> && batch == 1) {
      if (inputs[0].any) add_column<bits>(plane, rows.quads, tile_of, scale, zero, inputs[0], sums + j);
      return;
    }
    Tile tiles[MOST_QUADS];
    for (int32_t quad = 0; quad < rows.quads; ++quad) tiles[quad] = tile_of(quad);
    for (int32_t row = 0; row < batch; ++row)
      if (inputs[row].any)
        add_column<bits>(plane, rows.quads, [&](int32_t quad) -> const Tile& { return tiles[quad]; }, scale, zero,
                         inputs[row], sums + row * next + j);
  });
}

inline float stored(const void* from, int32_t format, int64_t at) {
  if (format == WINA_FLOAT32) return static_cast<const float*>(from)[at];
  const uint16_t half = static_cast<const uint16_t*>(from)[at];
  return format == WINA_BFLOAT16 ? bfloat16_to_float(half) : half_to_float(half);
}

struct Planes {
  int32_t count, bits[2];
};

inline Planes planes_of(int32_t bits) {
  if (bits == 6) return {2, {4, 2}};
  if (bits == 3) return {2, {2, 1}};
  return {1, {bits, 0}};
}

// Return the code of `bits` bits at a place in a row.
inline int32_t code_at(const uint8_t* row, int32_t bits, int32_t j) {
  const int32_t each = 8 / bits;
  return row[j / each] >> (bits * (j % each)) & ((1 << bits) - 1);
}

// Add one input's codes one by one, in floats: for inputs that cannot be rounded.
inline void add_exactly(const wina_run& run, int32_t row, int32_t group, float x, int32_t m, float* sums) {
  const Numbers scale = numbers_of(run.scale, run.scale_format, run.scale_stride, group);
  const Numbers zero = numbers_of(run.zero, run.zero_format, run.zero_stride, group);
  const Planes planes = planes_of(run.format);
  for (int32_t j = 0; j < m; ++j) {
    int32_t code = 0, shift = 0;
    const uint8_t* from = row_at(run, row);
    for (int32_t p = 0; p < planes.count; ++p) {
      code |= code_at(from, planes.bits[p], j) << shift;
      from += plane_bytes(planes.bits[p], m), shift += planes.bits[p];
    }
    if (run.format == 8) code = int8_t(code);
    const float value = float(code) - run.centre - (zero.at ? stored(zero.at, zero.format, j) : 0.0f);
    sums[j] += x * (value * stored(scale.at, scale.format, j));
  }
}

// Add the listed rows at .. end of a run of codes.
inline void add_codes(const wina_run& run, int32_t run_first, int32_t m, const wina::Lists& lists, int32_t at, int32_t end,
                      int32_t batch, float* sums) {
  const int64_t next = wina::padded(m);
  const Planes planes = planes_of(run.format);
  const auto add = [&](int32_t group, ChunkRows& rows, const Rounded* inputs, const ChunkRows& following) {
    Plane plane{0, true, numbers_of(run.scale, run.scale_format, run.scale_stride, group),
                numbers_of(run.zero, run.zero_format, run.zero_stride, group), run.format == 8 ? 128.0f : run.centre};
    for (int32_t p = 0; p < planes.count; ++p) {
      const int32_t bits = planes.bits[p];
      plane.lowest = p == 0;
      const bool is_last = p + 1 == planes.count;
      ChunkRows upper;
      if (!is_last) {
        upper = rows, upper.joined = false;
        for (int32_t k = 0; k < 4 * rows.quads; ++k) upper.at[k] += plane_bytes(bits, m);
      }
      const ChunkRows& next_rows = is_last ? following : upper;
      if (bits == 8)
        add_plane<8>(plane, rows, m, inputs, batch, sums, next, next_rows);
      else if (bits == 4)
        add_plane<4>(plane, rows, m, inputs, batch, sums, next, next_rows);
      else if (bits == 2)
        add_plane<2>(plane, rows, m, inputs, batch, sums, next, next_rows);
      else
        add_plane<1>(plane, rows, m, inputs, batch, sums, next, next_rows);
      if (!is_last) rows = upper;
      plane.shift += bits;
    }
  };
  each_chunk(run, run_first, lists, at, end, batch, add, [&](int32_t row, int32_t stored_row, int32_t group, float x) {
    add_exactly(run, stored_row, group, x, m, sums + row * next);
  });
}

}  // namespace WINA_ISA
