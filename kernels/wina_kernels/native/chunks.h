// Listed inputs in chunks: as many rows of W^T as are read side by side.
#pragma once
#include <math.h>

#include "kernels.h"
#include "numbers.h"

namespace WINA_ISA {

// As measured: longer chunks leave less for the next ones in the cache, shorter ones add up more often.
constexpr int MOST_CHUNK = 48;  // rows of codes
constexpr int FEW_ROWS = 16;    // rows of codes of 8 bits, of which more are read more slowly
constexpr int AHEAD = 256;      // lines of codes between what is multiplied and what is fetched
constexpr int FLOAT_CHUNK = 4;  // rows of floats of a batch, or of the last few of one
constexpr int LARGEST = 16256;  // of a rounded input: 127 * 128

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

// Return false if the inputs cannot be rounded together: not finite, or too small for a step. Loops have a fixed length,
// for which the compiler uses vectors.
inline bool round_inputs(const float* given, int32_t count, Rounded& rounded) {
  float x[MOST_CHUNK] = {};
  memcpy(x, given, size_t(count) * 4);
  int32_t sizes[MOST_CHUNK], largest = 0;
  memcpy(sizes, x, sizeof x);
  for (int32_t size : sizes) largest = (size & INT32_MAX) > largest ? size & INT32_MAX : largest;
  const float most = float_of(uint32_t(largest));
  rounded.any = largest > 0;
  if (!(most < INFINITY) || (most > 0 && most < 1e-30f)) return false;
  const uint32_t exponent = bits_of(most) & 0x7F800000;
  rounded.step = float_of(exponent) * (most > float_of(exponent) * (LARGEST / 8192.0f) ? 1.0f / 4096 : 1.0f / 8192);
  const float inverse = most > 0 ? 1.0f / rounded.step : 0.0f;
  int32_t q[MOST_CHUNK], sum = 0;
  for (int k = 0; k < MOST_CHUNK; ++k) sum += q[k] = int32_t(x[k] * inverse + (x[k] < 0 ? -0.5f : 0.5f));
  rounded.sum = rounded.step * float(sum);
  if (SPLIT) {
    int8_t high[MOST_CHUNK], low[MOST_CHUNK];
    for (int k = 0; k < MOST_CHUNK; ++k) high[k] = int8_t((q[k] + 64) >> 7), low[k] = int8_t(q[k] - high[k] * 128);
    memcpy(rounded.first, high, sizeof high), memcpy(rounded.second, low, sizeof low);
  } else {
    for (int k = 0; k < MOST_CHUNK; k += 4) {
      rounded.first[k / 4] = int32_t(uint32_t(q[k] & 0xFFFF) | uint32_t(q[k + 2]) << 16);
      rounded.second[k / 4] = int32_t(uint32_t(q[k + 1] & 0xFFFF) | uint32_t(q[k + 3]) << 16);
    }
  }
  return true;
}

}  // namespace WINA_ISA
