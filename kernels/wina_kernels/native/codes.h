// The product with rows of codes. A chunk of rows of one group is multiplied in integers, plane by plane, and its scales
// and zeros are applied once: y += scale (step sum(q code) - (centre + zero) step sum(q)).
#pragma once
#include "chunks.h"

namespace WINA_ISA {

inline Floats scales(const void* from, int32_t format, int64_t at) {
  if (format == WINA_FLOAT32) return load(static_cast<const float*>(from) + at);
  const auto* halves = static_cast<const uint16_t*>(from) + at;
  return format == WINA_BFLOAT16 ? from_bfloat16(halves) : from_float16(halves);
}

inline int64_t bytes_of(int32_t format) { return format == WINA_FLOAT32 ? 4 : 2; }

// What a chunk's plane needs besides its codes.
struct Plane {
  const uint8_t* rows[MOST_CHUNK];  // first bytes of the plane's rows
  int32_t quads;                    // rows / 4, the last one filled with rows that count 0
  int32_t shift;                    // bits of the lower planes
  bool lowest;
  const void *scale, *zero;  // of the chunk's group
  int32_t scale_format, zero_format;
  float centre;
};

// Add a block of WIDTH bytes a row to the sums of its outputs; `from` are the rows at the block.
template <int bits>
inline void add_block(const Plane& plane, const uint8_t* const* from, const void* scale, const void* zero,
                      const Rounded* inputs, int32_t batch, float* sums, int64_t next) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  Bytes tile[MOST_CHUNK / 4][4];
  for (int32_t quad = 0; quad < plane.quads; ++quad) {
    const uint8_t* const* four_rows = from + 4 * quad;
    Bytes a = load_bytes(four_rows[0]), b = load_bytes(four_rows[1]);
    Bytes c = load_bytes(four_rows[2]), d = load_bytes(four_rows[3]);
    if (bits == 8) a = flip_signs(a), b = flip_signs(b), c = flip_signs(c), d = flip_signs(d);
    interleave(a, b, c, d, tile[quad]);
  }
  for (int32_t row = 0; row < batch; ++row) {
    const Rounded& own = inputs[row];
    if (!own.any) continue;
    alignas(64) float found[2][outputs];  // ordered by place in a byte, then by byte
    for (int place = 0; place < each; ++place) {
      Sum sum[4] = {no_sum(), no_sum(), no_sum(), no_sum()};
      for (int32_t quad = 0; quad < plane.quads; ++quad)
        for (int v = 0; v < 4; ++v)
          add(sum[v], field<bits>(tile[quad][v], bits * place), own.first[quad], own.second[quad]);
      Ints all_four[4];
      Floats ordered[4];
      for (int v = 0; v < 4; ++v) all_four[v] = whole(sum[v]);
      in_order(all_four, ordered);
      for (int v = 0; v < 4; ++v) store(found[0] + place * WIDTH + v * LANES, ordered[v]);
    }
    // Places p and p + half are neighbours once every other pair is: zip until one stretch is left.
    int side = 0;
    for (int stretches = each; stretches > 1; stretches /= 2, side ^= 1) {
      const int length = outputs / stretches;
      for (int pair = 0; pair < stretches / 2; ++pair)
        for (int at = 0; at < length; at += LANES)
          zip(load(found[side] + pair * length + at), load(found[side] + (pair + stretches / 2) * length + at),
              found[side ^ 1] + 2 * (pair * length + at));
    }
    float* y = sums + row * next;
    const Floats step = all(own.step * float(1 << plane.shift));
    const Floats shift = all(plane.lowest ? -own.sum * plane.centre : 0.0f), sum = all(-own.sum);
    for (int at = 0; at < outputs; at += LANES) {
      Floats value = add_product(load(found[side] + at), step, shift);
      if (zero && plane.lowest) value = add_product(scales(zero, plane.zero_format, at), sum, value);
      store(y + at, add_product(value, scales(scale, plane.scale_format, at), load(y + at)));
    }
  }
}

template <int bits>
inline void add_plane(const Plane& plane, int32_t m, const Rounded* inputs, int32_t batch, float* sums, int64_t next,
                      Ahead& ahead, int32_t lines) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  const uint8_t* from[MOST_CHUNK];
  const int32_t rows = 4 * plane.quads, whole_blocks = m / outputs;
  const int64_t scale_bytes = bytes_of(plane.scale_format), zero_bytes = bytes_of(plane.zero_format);
  const auto* scale = static_cast<const uint8_t*>(plane.scale);
  const auto* zero = static_cast<const uint8_t*>(plane.zero);
  for (int32_t block = 0; block < whole_blocks; ++block) {
    ahead.read(lines);
    for (int32_t k = 0; k < rows; ++k) from[k] = plane.rows[k] + int64_t(block) * WIDTH;
    const int64_t first = int64_t(block) * outputs;
    add_block<bits>(plane, from, scale + first * scale_bytes, zero ? zero + first * zero_bytes : nullptr, inputs, batch,
                    sums + first, next);
  }
  const int32_t first = whole_blocks * outputs, rest = m - first;
  if (!rest) return;
  alignas(64) uint8_t last[MOST_CHUNK][WIDTH] = {};
  alignas(64) uint8_t last_scale[4 * outputs] = {}, last_zero[4 * outputs] = {};
  for (int32_t k = 0; k < rows; ++k) {
    memcpy(last[k], plane.rows[k] + int64_t(whole_blocks) * WIDTH, size_t((rest + each - 1) / each));
    from[k] = last[k];
  }
  memcpy(last_scale, scale + first * scale_bytes, size_t(rest * scale_bytes));
  if (zero) memcpy(last_zero, zero + first * zero_bytes, size_t(rest * zero_bytes));
  add_block<bits>(plane, from, last_scale, zero ? last_zero : nullptr, inputs, batch, sums + first, next);
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

inline int64_t plane_bytes(int32_t bits, int32_t m) { return (int64_t(m) * bits + 7) / 8; }

// Add one input's codes one by one, in floats: for inputs that cannot be rounded.
inline void add_exactly(const wina_run& run, int32_t row, int32_t group, float x, int32_t m, float* sums) {
  const auto* codes = static_cast<const uint8_t*>(run.codes) + int64_t(row) * run.stride;
  const auto* scale = static_cast<const uint8_t*>(run.scale) + group * run.scale_stride;
  const auto* zero = run.zero ? static_cast<const uint8_t*>(run.zero) + group * run.zero_stride : nullptr;
  const Planes planes = planes_of(run.format);
  for (int32_t j = 0; j < m; ++j) {
    int32_t code = 0, shift = 0;
    const uint8_t* from = codes;
    for (int32_t p = 0; p < planes.count; ++p) {
      const int32_t bits = planes.bits[p], each = 8 / bits;
      code |= (from[j / each] >> (bits * (j % each)) & ((1 << bits) - 1)) << shift;
      from += plane_bytes(bits, m), shift += bits;
    }
    if (run.format == 8) code = int8_t(code);
    const float value = float(code - run.centre) - (zero ? stored(zero, run.zero_format, j) : 0.0f);
    sums[j] += x * (value * stored(scale, run.scale_format, j));
  }
}

// Add the listed rows at .. end of a run of codes.
inline void add_codes(const wina_run& run, int32_t run_first, int32_t m, const wina::Lists& lists, int32_t n, int32_t at,
                      int32_t end, int32_t batch, float* sums) {
  const int64_t next = wina::padded(m);
  const Planes planes = planes_of(run.format);
  int64_t bytes = 0;
  for (int32_t p = 0; p < planes.count; ++p) bytes += plane_bytes(planes.bits[p], m);
  Chunk chunk = chunk_at(run, lists.rows, run_first, at, end, MOST_CHUNK);
  while (chunk.count) {
    const Chunk following = chunk_at(run, lists.rows, run_first, chunk.first + chunk.count, end, MOST_CHUNK);
    Ahead ahead = ahead_of(run, lists.rows, run_first, following, bytes);
    Rounded inputs[WINA_MOST_ROWS];
    bool rounds[WINA_MOST_ROWS];
    for (int32_t row = 0; row < batch; ++row) {
      const float* x = lists.values + int64_t(row) * n + chunk.first;
      rounds[row] = round_inputs(x, chunk.count, inputs[row]);
      if (rounds[row]) continue;
      for (int32_t k = 0; k < chunk.count; ++k)
        if (lists.marks[chunk.first + k] >> row & 1)
          add_exactly(run, lists.rows[chunk.first + k] - run_first, chunk.group, x[k], m, sums + row * next);
      inputs[row].any = false;
    }
    Plane plane;
    plane.quads = (chunk.count + 3) / 4, plane.shift = 0;
    plane.scale = static_cast<const uint8_t*>(run.scale) + chunk.group * run.scale_stride;
    plane.zero = run.zero ? static_cast<const uint8_t*>(run.zero) + chunk.group * run.zero_stride : nullptr;
    plane.scale_format = run.scale_format, plane.zero_format = run.zero_format;
    plane.centre = float(run.format == 8 ? 128 : run.centre);
    int64_t offset = 0;
    for (int32_t p = 0; p < planes.count; ++p) {
      const int32_t bits = planes.bits[p], outputs = WIDTH * 8 / bits, blocks = (m + outputs - 1) / outputs;
      for (int32_t k = 0; k < 4 * plane.quads; ++k) {
        const int32_t listed = lists.rows[chunk.first + (k < chunk.count ? k : 0)] - run_first;
        plane.rows[k] = static_cast<const uint8_t*>(run.codes) + listed * run.stride + offset;
      }
      plane.lowest = p == 0;
      const int64_t own_bytes = plane_bytes(bits, m);
      const auto lines = int32_t((ahead.count * ((own_bytes + 63) / 64) + blocks - 1) / blocks);
      if (bits == 8)
        add_plane<8>(plane, m, inputs, batch, sums, next, ahead, lines);
      else if (bits == 4)
        add_plane<4>(plane, m, inputs, batch, sums, next, ahead, lines);
      else if (bits == 2)
        add_plane<2>(plane, m, inputs, batch, sums, next, ahead, lines);
      else
        add_plane<1>(plane, m, inputs, batch, sums, next, ahead, lines);
      offset += own_bytes, plane.shift += bits;
    }
    chunk = following;
  }
}

}  // namespace WINA_ISA
