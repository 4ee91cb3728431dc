// Single numbers in 16 bits. Internal linkage: each instruction set compiles its own.
#pragma once
#include <stdint.h>
#include <string.h>

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static inline float bfloat16_to_float(uint16_t stored) { return float_of(uint32_t(stored) << 16); }

static inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 31) return float_of(sign | 0x7F800000 | fraction << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  const float value = float(fraction) * (1.0f / 16777216);
  return sign ? -value : value;
}

// To nearest, halves to even; a NaN stays one.
static inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  if (value != value) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t float_to_half(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (size > 0x7F800000) return uint16_t(sign | 0x7E00);
  if (size >= 0x477FF000) return uint16_t(sign | 0x7C00);
  if (size < 0x38800000) {  // below the smallest normal half: the sum's last bits are the half's
    const float shifted = float_of(size) + 0.5f;
    return uint16_t(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  return uint16_t(sign | ((size + 0xFFF + (size >> 13 & 1) - 0x38000000) >> 13));
}
