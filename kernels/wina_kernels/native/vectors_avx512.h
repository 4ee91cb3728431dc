// Vectors of 64 bytes: AVX-512 F, BW, VL; with VNNI where the compiler may use it.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace WINA_ISA {

constexpr int WIDTH = 64;
using Bytes = __m512i;
using Ints = __m512i;
using Floats = __m512;
constexpr int LANES = 16;  // floats of a vector
constexpr int SUMS = 8;    // sums that stay in registers

inline Bytes load_bytes(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline void store_bytes(uint8_t* to, Bytes value) { _mm512_storeu_si512(to, value); }
inline Bytes flip_signs(Bytes value) { return _mm512_xor_si512(value, _mm512_set1_epi8(char(0x80))); }

// Set quads[v] to four bytes a lane of 32 bits, one of each row: byte 16 L + 4 v + e of the rows is in lane 4 L + e.
inline void interleave(Bytes a, Bytes b, Bytes c, Bytes d, Bytes quads[4]) {
  const Bytes ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
  const Bytes ab2 = _mm512_unpackhi_epi8(a, b), cd2 = _mm512_unpackhi_epi8(c, d);
  quads[0] = _mm512_unpacklo_epi16(ab, cd), quads[1] = _mm512_unpackhi_epi16(ab, cd);
  quads[2] = _mm512_unpacklo_epi16(ab2, cd2), quads[3] = _mm512_unpackhi_epi16(ab2, cd2);
}

// Return the bits of bytes that a mask has.
inline Bytes masked(Bytes value, int mask) { return _mm512_and_si512(value, _mm512_set1_epi8(char(mask))); }

// Return the bits of `a` that a mask has, and the others of `b`.
inline Bytes mixed(Bytes a, Bytes b, int mask) {
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(char(mask)), a, b, 0xCA);
}

// Shift bytes by two bits; the bits that come in are anything.
inline Bytes up(Bytes value) { return _mm512_slli_epi16(value, 2); }
inline Bytes down(Bytes value) { return _mm512_srli_epi16(value, 2); }

#ifdef __AVX512VNNI__
// Sums of four unsigned codes times signed numbers q = 128 high + low, each part in 8 bits.
constexpr bool SPLIT = true;
struct Sum {
  Ints high, low;
};
inline Sum no_sum() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
inline void add(Sum& sum, Bytes codes, int32_t high, int32_t low) {
  sum.high = _mm512_dpbusd_epi32(sum.high, codes, _mm512_set1_epi32(high));
  sum.low = _mm512_dpbusd_epi32(sum.low, codes, _mm512_set1_epi32(low));
}
inline Ints whole(Sum sum) { return _mm512_add_epi32(_mm512_slli_epi32(sum.high, 7), sum.low); }
#else
// Sums of four unsigned codes times signed 16-bit numbers: the first and third, and the second and fourth, together.
constexpr bool SPLIT = false;
struct Sum {
  Ints all;
};
inline Sum no_sum() { return {_mm512_setzero_si512()}; }
inline void add(Sum& sum, Bytes codes, int32_t odd, int32_t even) {
  const Ints first = _mm512_and_si512(codes, _mm512_set1_epi16(0xFF)), second = _mm512_srli_epi16(codes, 8);
  const Ints both = _mm512_add_epi32(_mm512_madd_epi16(first, _mm512_set1_epi32(odd)),
                                     _mm512_madd_epi16(second, _mm512_set1_epi32(even)));
  sum.all = _mm512_add_epi32(sum.all, both);
}
inline Ints whole(Sum sum) { return sum.all; }
#endif

inline Floats to_floats(Ints value) { return _mm512_cvtepi32_ps(value); }

// Bring the lanes of four vectors, as `interleave` leaves them, into the order of the outputs.
inline void in_order(Floats values[4]) {
  const Floats a = _mm512_shuffle_f32x4(values[0], values[1], 0x44), b = _mm512_shuffle_f32x4(values[2], values[3], 0x44);
  const Floats c = _mm512_shuffle_f32x4(values[0], values[1], 0xEE), d = _mm512_shuffle_f32x4(values[2], values[3], 0xEE);
  values[0] = _mm512_shuffle_f32x4(a, b, 0x88), values[1] = _mm512_shuffle_f32x4(a, b, 0xDD);
  values[2] = _mm512_shuffle_f32x4(c, d, 0x88), values[3] = _mm512_shuffle_f32x4(c, d, 0xDD);
}

inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Floats value) { _mm512_storeu_ps(to, value); }
inline Floats all(float value) { return _mm512_set1_ps(value); }
inline Floats add_product(Floats a, Floats b, Floats sum) { return _mm512_fmadd_ps(a, b, sum); }
inline Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats plus(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats from_bfloat16(const void* from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)), 16));
}
inline Floats from_float16(const void* from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)); }
inline void zip(Floats a, Floats b, float* to) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  store(to, _mm512_permutex2var_ps(a, low, b));
  store(to + 16, _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b));
}

// Append the indices from `first` on, and the values, whose bit in `kept` is set; return how many.
inline int append(uint32_t kept, int32_t first, Floats values, int32_t* rows, float* to) {
  const __m512i here = _mm512_add_epi32(_mm512_set1_epi32(first), _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  _mm512_storeu_si512(rows, _mm512_maskz_compress_epi32(__mmask16(kept), here));
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(__mmask16(kept), values));
  return __builtin_popcount(kept);
}
constexpr bool APPENDS = true;
// Return a bit for each lane whose |a b| as bits exceeds the key.
inline uint32_t above(Floats a, Floats b, int32_t key) {
  const __m512i bits = _mm512_and_si512(_mm512_castps_si512(_mm512_mul_ps(a, b)), _mm512_set1_epi32(0x7FFFFFFF));
  return _mm512_cmpgt_epi32_mask(bits, _mm512_set1_epi32(key));
}

}  // namespace WINA_ISA
