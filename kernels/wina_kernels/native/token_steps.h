// The steps of a token beside its gated products, in vectors of 16 floats that the compiler maps to the registers of the
// instruction set it compiles for. Widths that are not a multiple of 16 end with a scalar loop.
#pragma once
#include <math.h>
#include <string.h>

#include "token.h"

namespace WINA_ISA {
namespace token {

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

constexpr int LANES = 16;

inline Floats spread(float value) { return value - Floats{}; }

inline Floats load(const float* from) {
  Floats found;
  memcpy(&found, from, sizeof found);
  return found;
}

inline Floats load(const uint16_t* from) {  // bfloat16
  Halves half;
  memcpy(&half, from, sizeof half);
  const Words word = __builtin_convertvector(half, Words) << 16;
  Floats found;
  memcpy(&found, &word, sizeof found);
  return found;
}

inline float one(const float* from) { return *from; }
inline float one(const uint16_t* from) {
  const uint32_t word = uint32_t(*from) << 16;
  float found;
  memcpy(&found, &word, 4);
  return found;
}

inline void store(Floats value, float* to) { memcpy(to, &value, sizeof value); }

inline void put(float value, float* to) { *to = value; }
inline void put(float value, uint16_t* to) {  // to nearest, halves to even; a NaN stays one
  uint32_t word;
  memcpy(&word, &value, 4);
  *to = value != value ? 0x7FC0 : uint16_t((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}

inline float total(Floats value) {
  float parts[LANES];
  memcpy(parts, &value, sizeof parts);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

// e^x by 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2]; relative error below 2e-7 (the coefficients are Cephes').
inline Floats exponential(Floats x) {
  const Floats low = spread(-87.0f), high = spread(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Floats magic = spread(12582912.0f);  // 1.5 * 2^23: rounds to nearest
  const Floats k = (x * 1.44269504f + magic) - magic;
  const Floats r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints scale = (__builtin_convertvector(k, Ints) + 127) << 23;
  Floats power;
  memcpy(&power, &scale, sizeof power);
  return p * power;
}

template <class T>
float dot(const T* w, const float* x, int n) {
  Floats a{}, b{}, c{}, d{};
  int i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    a += load(w + i) * load(x + i);
    b += load(w + i + LANES) * load(x + i + LANES);
    c += load(w + i + 2 * LANES) * load(x + i + 2 * LANES);
    d += load(w + i + 3 * LANES) * load(x + i + 3 * LANES);
  }
  for (; i + LANES <= n; i += LANES) a += load(w + i) * load(x + i);
  float found = total((a + b) + (c + d));
  for (; i < n; ++i) found += one(w + i) * x[i];
  return found;
}

template <class T>
void widen_row(const T* row, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = one(row + i);
}

void widen(const void* rows, int format, int64_t row, int n, float* y) {
  if (format == WINA_FLOAT32)
    widen_row(static_cast<const float*>(rows) + row * n, n, y);
  else
    widen_row(static_cast<const uint16_t*>(rows) + row * n, n, y);
}

void normalize(const float* x, const float* gain, float epsilon, int n, float* y) {
  const float factor = 1.0f / sqrtf(dot(x, x, n) / float(n) + epsilon);
  int i = 0;
  for (; i + LANES <= n; i += LANES) store(load(gain + i) * (load(x + i) * factor), y + i);
  for (; i < n; ++i) y[i] = gain[i] * (x[i] * factor);
}

template <class T>
void dense_rows(const T* w, const float* x, int n, int begin, int end, float* y) {
  for (int j = begin; j < end; ++j) y[j] = dot(w + int64_t(j) * n, x, n);
}

// Set y[j] for rows begin .. end of W [m, n].
void dense(const void* w, int format, const float* x, int n, int begin, int end, float* y) {
  if (format == WINA_FLOAT32)
    dense_rows(static_cast<const float*>(w), x, n, begin, end, y);
  else
    dense_rows(static_cast<const uint16_t*>(w), x, n, begin, end, y);
}

// y[j] = (y[j] if `add`) + bias[j] + the sums of all threads, j in begin .. end; `stride` floats lie between threads.
void collect(const float* sums, int64_t stride, int threads, const float* bias, int begin, int end, bool add, float* y) {
  int j = begin;
  for (; j + LANES <= end; j += LANES) {
    Floats own = load(sums + j);
    for (int thread = 1; thread < threads; ++thread) own += load(sums + thread * stride + j);
    if (bias) own += load(bias + j);
    if (add) own += load(y + j);
    store(own, y + j);
  }
  for (; j < end; ++j) {
    float own = sums[j];
    for (int thread = 1; thread < threads; ++thread) own += sums[thread * stride + j];
    y[j] = own + (bias ? bias[j] : 0.0f) + (add ? y[j] : 0.0f);
  }
}

// gate[j] = SiLU(gate[j]) * up[j].
void activate(float* gate, const float* up, int n) {
  int j = 0;
  for (; j + LANES <= n; j += LANES) {
    const Floats g = load(gate + j);
    store(g / (1.0f + exponential(-g)) * load(up + j), gate + j);
  }
  for (; j < n; ++j) gate[j] = gate[j] / (1.0f + expf(-gate[j])) * up[j];
}

// Turn the first `rotary` numbers of a head, half against half.
void rotate(float* head, const float* cosines, const float* sines, int rotary) {
  const int half = rotary / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

void narrow(const float* x, int n, int format, void* rows, int64_t row) {
  if (format == WINA_FLOAT32)
    memcpy(static_cast<float*>(rows) + row * n, x, sizeof(float) * n);
  else
    for (int i = 0; i < n; ++i) put(x[i], static_cast<uint16_t*>(rows) + row * n + i);
}

template <class T>
void attend_to(const float* query, const T* keys, const T* values, int begin, int end, int dim, float* scores, float* y) {
  float highest = -INFINITY;
  for (int at = begin; at < end; ++at) {
    scores[at] = dot(keys + int64_t(at) * dim, query, dim);
    highest = scores[at] > highest ? scores[at] : highest;
  }
  Floats sums{};
  int at = begin;
  for (; at + LANES <= end; at += LANES) {
    const Floats power = exponential(load(scores + at) - highest);
    store(power, scores + at);
    sums += power;
  }
  float sum = total(sums);
  for (; at < end; ++at) sum += scores[at] = expf(scores[at] - highest);
  int i = 0;
  for (; i + 4 * LANES <= dim; i += 4 * LANES) {
    Floats own[4] = {};
    for (at = begin; at < end; ++at) {
      const T* value = values + int64_t(at) * dim + i;
      for (int part = 0; part < 4; ++part) own[part] += scores[at] * load(value + part * LANES);
    }
    for (int part = 0; part < 4; ++part) store(own[part] / sum, y + i + part * LANES);
  }
  for (; i < dim; ++i) {
    float own = 0.0f;
    for (at = begin; at < end; ++at) own += scores[at] * one(values + int64_t(at) * dim + i);
    y[i] = own / sum;
  }
}

// y [dim] = softmax(query . keys[begin .. end]) values; `scores` has room for `end` numbers.
void attend(const float* query, const void* keys, const void* values, int format, int begin, int end, int dim,
            float* scores, float* y) {
  if (format == WINA_FLOAT32)
    attend_to(query, static_cast<const float*>(keys), static_cast<const float*>(values), begin, end, dim, scores, y);
  else
    attend_to(query, static_cast<const uint16_t*>(keys), static_cast<const uint16_t*>(values), begin, end, dim, scores,
              y);
}

}  // namespace token
}  // namespace WINA_ISA
