// Listed inputs in chunks: as many rows of W^T as are read side by side.
#pragma once
#include <math.h>

#include "kernels.h"
#include "numbers.h"

namespace WINA_ISA {

// As measured: longer chunks and segments leave less for the next ones in the cache, shorter ones add up more often.
constexpr int MOST_CHUNK = 32;  // rows of codes
constexpr int SEGMENT = 256;    // bytes of a row that are read at once
constexpr int FLOAT_CHUNK = 4;  // rows of floats; more streams are read more slowly
constexpr int LARGEST = 16256;  // of a rounded input: 127 * 128

inline void prefetch(const uint8_t* from) { __builtin_prefetch(from, 0, 3); }

// The listed rows of a run from a position on, at most `most` and of one group.
struct Chunk {
  int32_t first, count, group;
};

inline Chunk chunk_at(const wina_run& run, const int32_t* rows, int32_t run_first, int32_t at, int32_t end, int32_t most) {
  Chunk chunk{at, 0, 0};
  if (at >= end) return chunk;
  chunk.group = (rows[at] - run_first) / run.group;
  const int64_t limit = run_first + (int64_t(chunk.group) + 1) * run.group;
  int32_t all = 0;
  while (at + all < end && all < 2 * most && rows[at + all] < limit) ++all;
  chunk.count = all <= most ? all : (all + 1) / 2;  // two even chunks rather than a small one at the end
  if (all == 2 * most) chunk.count = most;
  return chunk;
}

inline const uint8_t* row_at(const wina_run& run, int32_t row) {
  return static_cast<const uint8_t*>(run.codes) + int64_t(row) * run.stride;
}

// Inputs of a chunk rounded to 15 bits: x is about step * q, |q| <= LARGEST; four of them in two words of 32 bits. The
// step is a power of two, so that bfloat16 inputs of at least a 64th of the largest are not rounded at all.
struct Rounded {
  int32_t first[MOST_CHUNK / 4], second[MOST_CHUNK / 4];
  float step, sum;  // sum of step * q
  bool any;         // whether an input is kept
};

inline int32_t four(int a, int b, int c, int d) {
  return int32_t(uint32_t(a & 255) | uint32_t(b & 255) << 8 | uint32_t(c & 255) << 16 | uint32_t(d & 255) << 24);
}
inline int32_t two(int a, int b) { return int32_t(uint32_t(a & 0xFFFF) | uint32_t(b & 0xFFFF) << 16); }

// Return false if the inputs cannot be rounded together: not finite, or too small for a step.
inline bool round_inputs(const float* x, int32_t count, Rounded& rounded) {
  float most = 0;
  bool finite = true;
  for (int32_t k = 0; k < count; ++k) {
    const float size = fabsf(x[k]);
    finite &= size < INFINITY;
    most = size > most ? size : most;
  }
  rounded.any = most > 0 || !finite;
  if (!finite || (most > 0 && most < 1e-30f)) return false;
  const uint32_t exponent = bits_of(most) & 0x7F800000;
  rounded.step = float_of(exponent) * (most > float_of(exponent) * (LARGEST / 8192.0f) ? 1.0f / 4096 : 1.0f / 8192);
  const float inverse = most > 0 ? 1.0f / rounded.step : 0.0f;
  int32_t q[MOST_CHUNK] = {}, sum = 0;
  for (int32_t k = 0; k < count; ++k) sum += q[k] = int32_t(x[k] * inverse + (x[k] < 0 ? -0.5f : 0.5f));
  for (int32_t k = 0; k < count; k += 4) {
    const int32_t* four_of = q + k;
    if (SPLIT) {
      int high[4], low[4];
      for (int e = 0; e < 4; ++e) high[e] = (four_of[e] + 64) >> 7, low[e] = four_of[e] - high[e] * 128;
      rounded.first[k / 4] = four(high[0], high[1], high[2], high[3]);
      rounded.second[k / 4] = four(low[0], low[1], low[2], low[3]);
    } else {
      rounded.first[k / 4] = two(four_of[0], four_of[2]), rounded.second[k / 4] = two(four_of[1], four_of[3]);
    }
  }
  rounded.sum = rounded.step * float(sum);
  return true;
}

}  // namespace WINA_ISA
