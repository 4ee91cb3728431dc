// Vectors of 32 bytes: AVX2, FMA and F16C; with AVX-VNNI where the compiler may use it.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace WINA_ISA {

constexpr int WIDTH = 32;
using Bytes = __m256i;
using Ints = __m256i;
using Floats = __m256;
constexpr int LANES = 8;
constexpr int SUMS = 4;

inline Bytes load_bytes(const uint8_t* from) { return _mm256_loadu_si256((const __m256i*)from); }
inline void store_bytes(uint8_t* to, Bytes value) { _mm256_storeu_si256((__m256i*)to, value); }
inline Bytes flip_signs(Bytes value) { return _mm256_xor_si256(value, _mm256_set1_epi8(char(0x80))); }
inline void interleave(Bytes a, Bytes b, Bytes c, Bytes d, Bytes quads[4]) {
  const Bytes ab = _mm256_unpacklo_epi8(a, b), cd = _mm256_unpacklo_epi8(c, d);
  const Bytes ab2 = _mm256_unpackhi_epi8(a, b), cd2 = _mm256_unpackhi_epi8(c, d);
  quads[0] = _mm256_unpacklo_epi16(ab, cd), quads[1] = _mm256_unpackhi_epi16(ab, cd);
  quads[2] = _mm256_unpacklo_epi16(ab2, cd2), quads[3] = _mm256_unpackhi_epi16(ab2, cd2);
}
inline Bytes masked(Bytes value, int mask) { return _mm256_and_si256(value, _mm256_set1_epi8(char(mask))); }
inline Bytes mixed(Bytes a, Bytes b, int mask) {
  const Bytes own = _mm256_set1_epi8(char(mask));
  return _mm256_or_si256(_mm256_and_si256(own, a), _mm256_andnot_si256(own, b));
}
inline Bytes up(Bytes value) { return _mm256_slli_epi16(value, 2); }
inline Bytes down(Bytes value) { return _mm256_srli_epi16(value, 2); }
#ifdef __AVXVNNI__
constexpr bool SPLIT = true;
struct Sum {
  Ints high, low;
};
inline Sum no_sum() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline void add(Sum& sum, Bytes codes, int32_t high, int32_t low) {
  sum.high = _mm256_dpbusd_avx_epi32(sum.high, codes, _mm256_set1_epi32(high));
  sum.low = _mm256_dpbusd_avx_epi32(sum.low, codes, _mm256_set1_epi32(low));
}
inline Ints whole(Sum sum) { return _mm256_add_epi32(_mm256_slli_epi32(sum.high, 7), sum.low); }
#else
constexpr bool SPLIT = false;
struct Sum {
  Ints all;
};
inline Sum no_sum() { return {_mm256_setzero_si256()}; }
inline void add(Sum& sum, Bytes codes, int32_t odd, int32_t even) {
  const Ints first = _mm256_and_si256(codes, _mm256_set1_epi16(0xFF)), second = _mm256_srli_epi16(codes, 8);
  const Ints both = _mm256_add_epi32(_mm256_madd_epi16(first, _mm256_set1_epi32(odd)),
                                     _mm256_madd_epi16(second, _mm256_set1_epi32(even)));
  sum.all = _mm256_add_epi32(sum.all, both);
}
inline Ints whole(Sum sum) { return sum.all; }
#endif
inline Floats to_floats(Ints value) { return _mm256_cvtepi32_ps(value); }
inline void in_order(Floats values[4]) {
  const Floats a = values[0], b = values[1], c = values[2], d = values[3];
  values[0] = _mm256_permute2f128_ps(a, b, 0x20), values[1] = _mm256_permute2f128_ps(c, d, 0x20);
  values[2] = _mm256_permute2f128_ps(a, b, 0x31), values[3] = _mm256_permute2f128_ps(c, d, 0x31);
}
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Floats value) { _mm256_storeu_ps(to, value); }
inline Floats all(float value) { return _mm256_set1_ps(value); }
inline Floats add_product(Floats a, Floats b, Floats sum) { return _mm256_fmadd_ps(a, b, sum); }
inline Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats plus(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats from_bfloat16(const void* from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from)), 16));
}
inline Floats from_float16(const void* from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }
inline void zip(Floats a, Floats b, float* to) {
  const Floats low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
  store(to, _mm256_permute2f128_ps(low, high, 0x20)), store(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
constexpr bool APPENDS = false;
inline int append(uint32_t, int32_t, Floats, int32_t*, float*) { return 0; }
inline uint32_t above(Floats, Floats, int32_t) { return 0; }

}  // namespace WINA_ISA
