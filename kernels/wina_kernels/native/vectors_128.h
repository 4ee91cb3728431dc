// Vectors of 16 bytes, which every 64-bit x86 (SSE2) and ARM (NEON) processor has.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#error "The kernels have no vectors for this processor."
#endif

namespace WINA_ISA {

constexpr int WIDTH = 16;
constexpr int LANES = 4;
constexpr int SUMS = 4;
constexpr bool SPLIT = false;
constexpr bool APPENDS = false;

#if defined(__SSE2__)
using Bytes = __m128i;
using Ints = __m128i;
using Floats = __m128;

inline Bytes load_bytes(const uint8_t* from) { return _mm_loadu_si128((const __m128i*)from); }
inline void store_bytes(uint8_t* to, Bytes value) { _mm_storeu_si128((__m128i*)to, value); }
inline Bytes flip_signs(Bytes value) { return _mm_xor_si128(value, _mm_set1_epi8(char(0x80))); }
inline void interleave(Bytes a, Bytes b, Bytes c, Bytes d, Bytes quads[4]) {
  const Bytes ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
  const Bytes ab2 = _mm_unpackhi_epi8(a, b), cd2 = _mm_unpackhi_epi8(c, d);
  quads[0] = _mm_unpacklo_epi16(ab, cd), quads[1] = _mm_unpackhi_epi16(ab, cd);
  quads[2] = _mm_unpacklo_epi16(ab2, cd2), quads[3] = _mm_unpackhi_epi16(ab2, cd2);
}
inline Bytes masked(Bytes value, int mask) { return _mm_and_si128(value, _mm_set1_epi8(char(mask))); }
inline Bytes mixed(Bytes a, Bytes b, int mask) {
  const Bytes own = _mm_set1_epi8(char(mask));
  return _mm_or_si128(_mm_and_si128(own, a), _mm_andnot_si128(own, b));
}
inline Bytes up(Bytes value) { return _mm_slli_epi16(value, 2); }
inline Bytes down(Bytes value) { return _mm_srli_epi16(value, 2); }
struct Sum {
  Ints all;
};
inline Sum no_sum() { return {_mm_setzero_si128()}; }
inline void add(Sum& sum, Bytes codes, int32_t odd, int32_t even) {
  const Ints first = _mm_and_si128(codes, _mm_set1_epi16(0xFF)), second = _mm_srli_epi16(codes, 8);
  const Ints both =
      _mm_add_epi32(_mm_madd_epi16(first, _mm_set1_epi32(odd)), _mm_madd_epi16(second, _mm_set1_epi32(even)));
  sum.all = _mm_add_epi32(sum.all, both);
}
inline Floats to_floats(Ints value) { return _mm_cvtepi32_ps(value); }
inline Floats load(const float* from) { return _mm_loadu_ps(from); }
inline void store(float* to, Floats value) { _mm_storeu_ps(to, value); }
inline Floats all(float value) { return _mm_set1_ps(value); }
inline Floats add_product(Floats a, Floats b, Floats sum) { return _mm_add_ps(_mm_mul_ps(a, b), sum); }
inline Floats times(Floats a, Floats b) { return _mm_mul_ps(a, b); }
inline Floats plus(Floats a, Floats b) { return _mm_add_ps(a, b); }
inline Floats from_bfloat16(const void* from) {
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i*)from)));
}
inline void zip(Floats a, Floats b, float* to) {
  store(to, _mm_unpacklo_ps(a, b)), store(to + 4, _mm_unpackhi_ps(a, b));
}
#else
using Bytes = uint8x16_t;
using Ints = int32x4_t;
using Floats = float32x4_t;

inline Bytes load_bytes(const uint8_t* from) { return vld1q_u8(from); }
inline void store_bytes(uint8_t* to, Bytes value) { vst1q_u8(to, value); }
inline Bytes flip_signs(Bytes value) { return veorq_u8(value, vdupq_n_u8(0x80)); }
inline void interleave(Bytes a, Bytes b, Bytes c, Bytes d, Bytes quads[4]) {
  const uint16x8_t ab = vreinterpretq_u16_u8(vzip1q_u8(a, b)), cd = vreinterpretq_u16_u8(vzip1q_u8(c, d));
  const uint16x8_t ab2 = vreinterpretq_u16_u8(vzip2q_u8(a, b)), cd2 = vreinterpretq_u16_u8(vzip2q_u8(c, d));
  quads[0] = vreinterpretq_u8_u16(vzip1q_u16(ab, cd)), quads[1] = vreinterpretq_u8_u16(vzip2q_u16(ab, cd));
  quads[2] = vreinterpretq_u8_u16(vzip1q_u16(ab2, cd2)), quads[3] = vreinterpretq_u8_u16(vzip2q_u16(ab2, cd2));
}
inline Bytes masked(Bytes value, int mask) { return vandq_u8(value, vdupq_n_u8(uint8_t(mask))); }
inline Bytes mixed(Bytes a, Bytes b, int mask) { return vbslq_u8(vdupq_n_u8(uint8_t(mask)), a, b); }
inline Bytes up(Bytes value) { return vshlq_n_u8(value, 2); }
inline Bytes down(Bytes value) { return vshrq_n_u8(value, 2); }
struct Sum {
  Ints all;
};
inline Sum no_sum() { return {vdupq_n_s32(0)}; }
inline int32x4_t pairs(int16x8_t a, int16x8_t b) {
  return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
inline void add(Sum& sum, Bytes codes, int32_t odd, int32_t even) {
  const uint16x8_t both = vreinterpretq_u16_u8(codes);
  const int16x8_t first = vreinterpretq_s16_u16(vandq_u16(both, vdupq_n_u16(0xFF)));
  const int16x8_t second = vreinterpretq_s16_u16(vshrq_n_u16(both, 8));
  sum.all = vaddq_s32(sum.all, pairs(first, vreinterpretq_s16_s32(vdupq_n_s32(odd))));
  sum.all = vaddq_s32(sum.all, pairs(second, vreinterpretq_s16_s32(vdupq_n_s32(even))));
}
inline Floats to_floats(Ints value) { return vcvtq_f32_s32(value); }
inline Floats load(const float* from) { return vld1q_f32(from); }
inline void store(float* to, Floats value) { vst1q_f32(to, value); }
inline Floats all(float value) { return vdupq_n_f32(value); }
inline Floats add_product(Floats a, Floats b, Floats sum) { return vfmaq_f32(sum, a, b); }
inline Floats times(Floats a, Floats b) { return vmulq_f32(a, b); }
inline Floats plus(Floats a, Floats b) { return vaddq_f32(a, b); }
inline Floats from_bfloat16(const void* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t*)from), 16));
}
inline void zip(Floats a, Floats b, float* to) { store(to, vzip1q_f32(a, b)), store(to + 4, vzip2q_f32(a, b)); }
#endif

inline Ints whole(Sum sum) { return sum.all; }
inline void in_order(Floats*) {}
inline Floats from_float16(const void* from) {
#if defined(__aarch64__)
  return vcvt_f32_f16(vld1_f16((const __fp16*)from));
#else
  float values[4];
  for (int i = 0; i < 4; ++i) values[i] = half_to_float(static_cast<const uint16_t*>(from)[i]);
  return load(values);
#endif
}
inline int append(uint32_t, int32_t, Floats, int32_t*, float*) { return 0; }
inline uint32_t above(Floats, Floats, int32_t) { return 0; }

}  // namespace WINA_ISA
