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

constexpr int BLOCKS = SEGMENT / WIDTH;
constexpr int MOST_QUADS = MOST_CHUNK / 4;

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

// Interleave a block of WIDTH bytes of four rows.
template <int bits>
inline void interleave_at(const uint8_t* const rows[4], int64_t at, Bytes tile[4]) {
  Bytes a = load_bytes(rows[0] + at), b = load_bytes(rows[1] + at);
  Bytes c = load_bytes(rows[2] + at), d = load_bytes(rows[3] + at);
  if (bits == 8) a = flip_signs(a), b = flip_signs(b), c = flip_signs(c), d = flip_signs(d);
  interleave(a, b, c, d, tile);
}

// Add a block of interleaved codes to the sums of its outputs.
template <int bits>
inline void add_block(const Plane& plane, const Bytes (*tile)[BLOCKS][4], int block, const void* scale, const void* zero,
                      const Rounded* inputs, int32_t batch, float* sums, int64_t next) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  for (int32_t row = 0; row < batch; ++row) {
    const Rounded& own = inputs[row];
    if (!own.any) continue;
    alignas(64) float found[2][outputs];  // ordered by place in a byte, then by byte
    for (int place = 0; place < each; ++place) {
      Sum sum[4] = {no_sum(), no_sum(), no_sum(), no_sum()};
      for (int32_t quad = 0; quad < plane.quads; ++quad)
        for (int v = 0; v < 4; ++v)
          add(sum[v], field<bits>(tile[quad][block][v], bits * place), own.first[quad], own.second[quad]);
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

// Add a plane's rows, a segment at a time: four rows after four are interleaved, then multiplied. Meanwhile the next
// segment is fetched, half of it in each step; after the last one the first of `following`, the next chunk's rows.
template <int bits>
inline void add_plane(const Plane& plane, int32_t m, const Rounded* inputs, int32_t batch, float* sums, int64_t next,
                      const uint8_t* const* following, int32_t following_quads) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  const int32_t quads = plane.quads, whole_blocks = m / outputs;
  const int64_t scale_bytes = bytes_of(plane.scale_format), zero_bytes = bytes_of(plane.zero_format);
  const auto* scale = static_cast<const uint8_t*>(plane.scale);
  const auto* zero = static_cast<const uint8_t*>(plane.zero);
  Bytes tile[MOST_QUADS][BLOCKS][4];
  for (int32_t first = 0; first < whole_blocks; first += BLOCKS) {
    const int32_t blocks = whole_blocks - first < BLOCKS ? whole_blocks - first : BLOCKS;
    const bool ends = first + BLOCKS >= whole_blocks;
    const uint8_t* const* soon = ends ? following : plane.rows;
    const int32_t soon_quads = ends ? following_quads : quads;
    const int64_t at = ends ? 0 : int64_t(first + BLOCKS) * WIDTH;
    for (int32_t quad = 0; quad < quads; ++quad)
      for (int32_t block = 0; block < blocks; ++block) {
        if (quad < soon_quads && block * WIDTH % 64 == 0)
          for (int k = 0; k < 2; ++k) prefetch(soon[4 * quad + k] + at + block * WIDTH);
        interleave_at<bits>(plane.rows + 4 * quad, int64_t(first + block) * WIDTH, tile[quad][block]);
      }
    for (int32_t block = 0; block < blocks; ++block) {
      const int64_t j = int64_t(first + block) * outputs;
      if (block * WIDTH % 64 == 0)
        for (int32_t quad = 0; quad < soon_quads; ++quad)
          for (int k = 2; k < 4; ++k) prefetch(soon[4 * quad + k] + at + block * WIDTH);
      add_block<bits>(plane, tile, block, scale + j * scale_bytes, zero ? zero + j * zero_bytes : nullptr, inputs, batch,
                      sums + j, next);
    }
  }
  const int32_t done = whole_blocks * outputs, rest = m - done;
  if (!rest) return;
  alignas(64) uint8_t last[4][WIDTH] = {};
  alignas(64) uint8_t last_scale[4 * outputs] = {}, last_zero[4 * outputs] = {};
  const uint8_t* from[4] = {last[0], last[1], last[2], last[3]};
  for (int32_t quad = 0; quad < quads; ++quad) {
    for (int k = 0; k < 4; ++k)
      memcpy(last[k], plane.rows[4 * quad + k] + int64_t(whole_blocks) * WIDTH, size_t((rest + each - 1) / each));
    interleave_at<bits>(from, 0, tile[quad][0]);
  }
  memcpy(last_scale, scale + done * scale_bytes, size_t(rest * scale_bytes));
  if (zero) memcpy(last_zero, zero + done * zero_bytes, size_t(rest * zero_bytes));
  add_block<bits>(plane, tile, 0, last_scale, zero ? last_zero : nullptr, inputs, batch, sums + done, next);
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

// Set `rows` to a chunk's rows, filled up to fours with its first one; return the number of fours.
inline int32_t rows_of(const wina_run& run, const int32_t* listed, int32_t run_first, const Chunk& chunk,
                       const uint8_t** rows) {
  const int32_t quads = (chunk.count + 3) / 4;
  for (int32_t k = 0; k < 4 * quads; ++k)
    rows[k] = row_at(run, listed[chunk.first + (k < chunk.count ? k : 0)] - run_first);
  return quads;
}

// Add the listed rows at .. end of a run of codes.
inline void add_codes(const wina_run& run, int32_t run_first, int32_t m, const wina::Lists& lists, int32_t n, int32_t at,
                      int32_t end, int32_t batch, float* sums) {
  const int64_t next = wina::padded(m);
  const Planes planes = planes_of(run.format);
  Plane plane;
  const uint8_t* following[MOST_CHUNK];
  Chunk chunk = chunk_at(run, lists.rows, run_first, at, end, MOST_CHUNK);
  plane.quads = rows_of(run, lists.rows, run_first, chunk, plane.rows);
  while (chunk.count) {
    const Chunk then = chunk_at(run, lists.rows, run_first, chunk.first + chunk.count, end, MOST_CHUNK);
    const int32_t quads = rows_of(run, lists.rows, run_first, then, following);
    Rounded inputs[WINA_MOST_ROWS];
    for (int32_t row = 0; row < batch; ++row) {
      const float* x = lists.values + int64_t(row) * n + chunk.first;
      if (round_inputs(x, chunk.count, inputs[row])) continue;
      for (int32_t k = 0; k < chunk.count; ++k)
        if (lists.marks[chunk.first + k] >> row & 1)
          add_exactly(run, lists.rows[chunk.first + k] - run_first, chunk.group, x[k], m, sums + row * next);
      inputs[row].any = false;
    }
    plane.scale = static_cast<const uint8_t*>(run.scale) + chunk.group * run.scale_stride;
    plane.zero = run.zero ? static_cast<const uint8_t*>(run.zero) + chunk.group * run.zero_stride : nullptr;
    plane.scale_format = run.scale_format, plane.zero_format = run.zero_format;
    plane.centre = float(run.format == 8 ? 128 : run.centre);
    plane.shift = 0;
    for (int32_t p = 0; p < planes.count; ++p) {
      const int32_t bits = planes.bits[p];
      plane.lowest = p == 0;
      if (bits == 8)
        add_plane<8>(plane, m, inputs, batch, sums, next, following, quads);
      else if (bits == 4)
        add_plane<4>(plane, m, inputs, batch, sums, next, following, quads);
      else if (bits == 2)
        add_plane<2>(plane, m, inputs, batch, sums, next, following, quads);
      else
        add_plane<1>(plane, m, inputs, batch, sums, next, following, quads);
      for (int32_t k = 0; k < 4 * plane.quads; ++k) plane.rows[k] += plane_bytes(bits, m);
      plane.shift += bits;
    }
    chunk = then;
    plane.quads = quads;
    memcpy(plane.rows, following, sizeof(const uint8_t*) * size_t(4 * quads));
  }
}

}  // namespace WINA_ISA
