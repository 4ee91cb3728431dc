// The product of many rows of x with W^T in bfloat16, by instructions that multiply pairs of inputs and add in float32.
//
// x is copied to blocks of INPUTS. Pairs of rows of W^T are packed for INPUTS x OUTPUTS weights at a time, which all rows
// of a block of x then multiply; meanwhile the next block's lines of the cache are fetched.
#include "many_rows.h"

#include <immintrin.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "memory.h"
#include "pool.h"

namespace {

// As measured: fewer outputs are read in too short runs, fewer inputs load the sums too often.
constexpr int INPUTS = 128;   // of a block
constexpr int PANELS = 4;     // of a block at most: outputs that are multiplied together
constexpr int VECTORS = 4;    // of sums of 16 outputs for each row of x
constexpr int PANEL = 16 * VECTORS;
constexpr int ROWS = 6;       // of x side by side: their sums stay in registers

struct Matrix {
  const uint16_t* at;
  int64_t stride;  // numbers between rows
};

inline __m512i load_half(const uint16_t* from, int outputs) {
  if (outputs >= 32) return _mm512_loadu_si512(from);
  return _mm512_maskz_loadu_epi16((__mmask32(1) << (outputs > 0 ? outputs : 0)) - 1, from);
}

// Pack rows of W^T, panel by panel: a vector has 16 outputs of an input and of the next one, side by side. Outputs of each
// 32 are in the order that interleaving leaves: 0-3, 8-11, ... and 4-7, 12-15, ...
template <int panels>
void pack(Matrix weight, int inputs, int outputs, __m512i* to) {
  for (int i = 0; i < inputs; i += 2) {
    const uint16_t* const row = weight.at + i * weight.stride;
    for (int panel = 0; panel < panels; ++panel)
      for (int half = 0; half < VECTORS / 2; ++half) {
        const int first = panel * PANEL + 32 * half;
        const __m512i a = load_half(row + first, outputs - first);
        const __m512i b = load_half(row + weight.stride + first, outputs - first);
        __m512i* const own = to + panel * (INPUTS / 2 * VECTORS) + i / 2 * VECTORS + 2 * half;
        own[0] = _mm512_unpacklo_epi16(a, b), own[1] = _mm512_unpackhi_epi16(a, b);
      }
  }
}

// Add a packed block's products with `rows` rows of x to their sums, and fetch the next block's lines.
template <int rows>
void add(const __m512i* packed, Matrix x, int inputs, float* sums, Matrix next) {
  __m512 own[rows][VECTORS];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < VECTORS; ++v) own[r][v] = _mm512_loadu_ps(sums + r * PANEL + 16 * v);
  for (int i = 0; i < inputs; i += 2, packed += VECTORS) {
    if (next.at)
      for (int k = 0; k < 2; ++k)
        for (int line = 0; line < PANEL; line += 32) __builtin_prefetch(next.at + (i + k) * next.stride + line, 0, 3);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      int32_t pair;
      memcpy(&pair, x.at + r * x.stride + i, sizeof pair);
      const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) own[r][v] = _mm512_dpbf16_ps(own[r][v], (__m512bh)packed[v], both);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < VECTORS; ++v) _mm512_storeu_ps(sums + r * PANEL + 16 * v, own[r][v]);
}

void add_any(int rows, const __m512i* packed, Matrix x, int inputs, float* sums, Matrix next) {
  switch (rows) {
    case 6: return add<6>(packed, x, inputs, sums, next);
    case 5: return add<5>(packed, x, inputs, sums, next);
    case 4: return add<4>(packed, x, inputs, sums, next);
    case 3: return add<3>(packed, x, inputs, sums, next);
    case 2: return add<2>(packed, x, inputs, sums, next);
    case 1: return add<1>(packed, x, inputs, sums, next);
  }
}

inline __m512 to_floats(__m256i bfloat16) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bfloat16), 16)); }

// Set y [outputs] to a row's sums, in order, plus the bias, and rounded if y is bfloat16.
void store(const float* sums, int outputs, const uint16_t* bias, void* y, int32_t format) {
  alignas(64) float found[PANEL];
  for (int half = 0; half < VECTORS / 2; ++half) {
    const __m512 a = _mm512_loadu_ps(sums + 32 * half), b = _mm512_loadu_ps(sums + 32 * half + 16);
    const __m512i low = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const __m512i own = bias ? load_half(bias + 32 * half, outputs - 32 * half) : _mm512_setzero_si512();
    const __m512 first = _mm512_permutex2var_ps(a, low, b) + to_floats(_mm512_castsi512_si256(own));
    const __m512 second = _mm512_permutex2var_ps(a, high, b) + to_floats(_mm512_extracti64x4_epi64(own, 1));
    if (format == WINA_FLOAT32) {
      _mm512_store_ps(found + 32 * half, first);
      _mm512_store_ps(found + 32 * half + 16, second);
    } else {
      auto* const rounded = reinterpret_cast<uint16_t*>(found);
      _mm512_store_si512(rounded + 32 * half, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    }
  }
  memcpy(y, found, size_t(outputs < PANEL ? outputs : PANEL) * size_t(format == WINA_FLOAT32 ? 4 : 2));
}

}  // namespace

bool wina::many_rows_avx512bf16(const ManyRows& given, int32_t threads) {
  static thread_local Buffer copy;
  const int64_t rows = given.rows;
  const int32_t blocks = (given.inputs + INPUTS - 1) / INPUTS;
  auto* const x = static_cast<uint16_t*>(copy.at_least(size_t(rows * blocks * INPUTS * 2)));
  if (!x) return false;
  auto* const y = static_cast<uint8_t*>(given.y);
  std::atomic<bool> failed{false};
  Pool::shared().run(threads, [&](int thread, int team) {
    static thread_local Buffer memory;
    const int32_t all = (given.outputs + PANEL - 1) / PANEL;
    const int32_t panels = std::min(PANELS, (all + team - 1) / team), columns = (all + panels - 1) / panels;
    const int64_t vectors = INPUTS / 2 * VECTORS, summed = rows * PANEL;  // of a panel
    auto* const packed = static_cast<__m512i*>(memory.at_least(size_t(panels * (vectors * 64 + summed * 4))));
    if (!packed) failed = true;
    const auto inputs_of = [&](int32_t block) { return block + 1 < blocks ? INPUTS : given.inputs - block * INPUTS; };
    for (int32_t block = blocks * thread / team; block < blocks * (thread + 1) / team; ++block)
      for (int64_t row = 0; row < rows; ++row)
        memcpy(x + (block * rows + row) * INPUTS, given.x + row * given.inputs + block * INPUTS,
               size_t(inputs_of(block)) * 2);
    Pool::shared().barrier();
    if (failed) return;
    auto* const sums = reinterpret_cast<float*>(packed + panels * vectors);
    const int32_t groups = (given.rows + ROWS - 1) / ROWS;
    for (int32_t column = columns * thread / team; column < columns * (thread + 1) / team; ++column) {
      const int32_t first = column * panels * PANEL, outputs = given.outputs - first;
      memset(sums, 0, size_t(panels * summed) * 4);
      for (int32_t block = 0; block < blocks; ++block) {
        const uint16_t* const at = given.weight_t + block * INPUTS * given.stride + first;
        if (panels == PANELS)
          pack<PANELS>({at, given.stride}, inputs_of(block), outputs, packed);
        else
          for (int panel = 0; panel < panels; ++panel)
            pack<1>({at + panel * PANEL, given.stride}, inputs_of(block), outputs - panel * PANEL, packed + panel * vectors);
        const uint16_t* const next = block + 1 < blocks ? at + INPUTS * given.stride : given.weight_t + first + panels * PANEL;
        for (int32_t panel = 0; panel < panels && panel * PANEL < outputs; ++panel)
          for (int32_t group = 0; group < groups; ++group) {
            const int64_t row = rows * group / groups, end = rows * (group + 1) / groups;
            add_any(int(end - row), packed + panel * vectors, {x + (block * rows + row) * INPUTS, INPUTS},
                    inputs_of(block), sums + panel * summed + row * PANEL,
                    {group ? nullptr : next + panel * PANEL, given.stride});
          }
      }
      for (int64_t row = 0; row < rows; ++row)
        for (int32_t panel = 0; panel < panels && panel * PANEL < outputs; ++panel)
          store(sums + panel * summed + row * PANEL, outputs - panel * PANEL,
                given.bias ? given.bias + first + panel * PANEL : nullptr,
                y + (row * given.outputs + first + panel * PANEL) * given.y_bytes(), given.y_format);
    }
  });
  return !failed;
}
