// The product with listed rows of W^T, and the table of an instruction set's kernels.
#pragma once
#include "lists.h"
#include "planes.h"

namespace WINA_ISA {

template <int format>
inline Floats stored_floats(const uint8_t* from, int64_t at) {
  if (format == WINA_FLOAT32) return load(reinterpret_cast<const float*>(from) + at);
  const auto* halves = reinterpret_cast<const uint16_t*>(from) + at;
  return format == WINA_BFLOAT16 ? from_bfloat16(halves) : from_float16(halves);
}

// Add sums[j] += x[k] row_k[j] for outputs first .. last of `count` rows.
template <int format, int count>
inline void add_rows(const uint8_t* const* rows, const float* x, int64_t first, int64_t last, float* sums) {
  Floats values[count];
  for (int k = 0; k < count; ++k) values[k] = all(x[k]);
  int64_t j = first;
  for (; j + LANES <= last; j += LANES) {
    Floats sum = load(sums + j);
    for (int k = 0; k < count; ++k) sum = add_product(stored_floats<format>(rows[k], j), values[k], sum);
    store(sums + j, sum);
  }
  for (; j < last; ++j)
    for (int k = 0; k < count; ++k) sums[j] += x[k] * stored(rows[k], format, j);
}

template <int format>
inline void add_any(const uint8_t* const* rows, const float* x, int32_t count, int64_t first, int64_t last, float* sums) {
  switch (count) {
    case 4: return add_rows<format, 4>(rows, x, first, last, sums);
    case 3: return add_rows<format, 3>(rows, x, first, last, sums);
    case 2: return add_rows<format, 2>(rows, x, first, last, sums);
    case 1: return add_rows<format, 1>(rows, x, first, last, sums);
  }
}

// Rows of floats that are added side by side.
struct Side {
  static constexpr int32_t COUNT = 8;
  const uint8_t* at[COUNT];
  bool joined;  // stand one after the other
};

inline Side side_of(const wina_run& run, const int32_t* listed, int32_t run_first, int64_t bytes) {
  Side side;
  for (int32_t k = 0; k < Side::COUNT; ++k) side.at[k] = row_at(run, listed[k] - run_first);
  side.joined = listed[Side::COUNT - 1] - listed[0] == Side::COUNT - 1 && run.stride == bytes;
  return side;
}

// Add the listed rows at .. end of a run of floats for one row of x. Meanwhile lines of the cache are fetched: of rows one
// after the other the next ones in their order, else what is `ahead` in the same rows, and then in the next ones.
template <int format>
inline void add_alone(const wina_run& run, int32_t run_first, int32_t m, const wina::Lists& lists, int32_t at,
                      int32_t end, float* sums) {
  const int32_t line = 64 / int32_t(bytes_of(format)), stretch = 2 * line;
  const int64_t bytes = m * bytes_of(format), ahead = bytes < 1024 ? bytes : 1024;
  if (at + Side::COUNT <= end) {
    Side rows = side_of(run, lists.rows + at, run_first, bytes);
    while (at + Side::COUNT <= end) {
      const int32_t then = at + Side::COUNT;
      const Side next = then + Side::COUNT <= end ? side_of(run, lists.rows + then, run_first, bytes) : rows;
      for (int64_t first = 0; first < m; first += stretch) {
        const int64_t from = first * 64 / line;
        if (next.joined) {
          const int64_t place = from * Side::COUNT;
          for (int64_t k = 0; k < 128 * Side::COUNT; k += 64) __builtin_prefetch(next.at[0] + place + k, 0, 3);
        } else {
          const uint8_t* const* soon = from + ahead < bytes ? rows.at : next.at;
          const int64_t place = from + ahead - (from + ahead < bytes ? 0 : bytes);
          for (int32_t k = 0; k < Side::COUNT; ++k)
            for (int64_t part = 0; part < 128; part += 64) __builtin_prefetch(soon[k] + place + part, 0, 3);
        }
        add_rows<format, Side::COUNT>(rows.at, lists.values + at, first, first + stretch < m ? first + stretch : m, sums);
      }
      at = then, rows = next;
    }
  }
  for (; at < end; at += FLOAT_CHUNK) {
    const int32_t count = end - at < FLOAT_CHUNK ? end - at : FLOAT_CHUNK;
    const uint8_t* rows[FLOAT_CHUNK];
    for (int32_t k = 0; k < count; ++k) rows[k] = row_at(run, lists.rows[at + k] - run_first);
    add_any<format>(rows, lists.values + at, count, 0, m, sums);
  }
}

// Add the listed rows at .. end of a run of floats; a batch's rows add their own inputs while a block is in the cache.
template <int format>
inline void add_floats(const wina_run& run, int32_t run_first, int32_t m, const wina::Lists& lists, int32_t at,
                       int32_t end, int32_t batch, float* sums) {
  if (batch == 1) return add_alone<format>(run, run_first, m, lists, at, end, sums);
  const int64_t next = wina::padded(m), block = 1024;
  for (int32_t from = at; from < end; from += FLOAT_CHUNK) {
    const int32_t count = end - from < FLOAT_CHUNK ? end - from : FLOAT_CHUNK;
    const uint8_t* rows[WINA_MOST_ROWS][FLOAT_CHUNK];
    float x[WINA_MOST_ROWS][FLOAT_CHUNK];
    int32_t counts[WINA_MOST_ROWS] = {};
    for (int32_t k = 0; k < count; ++k)
      for (int32_t row = 0; row < batch; ++row)
        if (lists.marks[from + k] >> row & 1) {
          rows[row][counts[row]] = row_at(run, lists.rows[from + k] - run_first);
          x[row][counts[row]++] = lists.values[row * lists.room + from + k];
        }
    for (int64_t first = 0; first < m; first += block) {
      const int64_t last = first + block < m ? first + block : m;
      for (int32_t row = 0; row < batch; ++row)
        add_any<format>(rows[row], x[row], counts[row], first, last, sums + row * next);
    }
  }
}

inline int64_t row_bytes(const wina_run& run, int32_t m) {
  if (run.format >= WINA_BFLOAT16) return m * bytes_of(run.format);
  return plane_bytes(run.format, m);
}

inline void multiply(const wina_weight& weight, const wina::Lists& lists, int32_t batch, int32_t thread, int32_t threads,
                     float* sums) {
  const int32_t m = weight.outputs;
  memset(sums, 0, size_t(batch * wina::padded(m)) * 4);
  int64_t bytes = 0;
  for (int32_t r = 0; r < weight.runs; ++r)
    bytes += row_bytes(weight.run[r], m) * (lists.starts[r + 1] - lists.starts[r]);
  int64_t before = 0;  // bytes of the runs before
  int32_t run_first = 0;
  for (int32_t r = 0; r < weight.runs; ++r) {
    const wina_run& run = weight.run[r];
    const int64_t row = row_bytes(run, m), count = lists.starts[r + 1] - lists.starts[r];
    const auto place = [&](int32_t share) {
      const int64_t wanted = (bytes * share / threads - before) / (row ? row : 1);
      return lists.starts[r] + int32_t(wanted < 0 ? 0 : wanted > count ? count : wanted);
    };
    const int32_t at = place(thread), end = thread + 1 == threads ? lists.starts[r + 1] : place(thread + 1);
    if (run.format == WINA_FLOAT32)
      add_floats<WINA_FLOAT32>(run, run_first, m, lists, at, end, batch, sums);
    else if (run.format == WINA_BFLOAT16)
      add_floats<WINA_BFLOAT16>(run, run_first, m, lists, at, end, batch, sums);
    else if (run.format == WINA_FLOAT16)
      add_floats<WINA_FLOAT16>(run, run_first, m, lists, at, end, batch, sums);
    else if (weight.planes.starts)
      add_planes(run, m, lists, at, end, batch, sums);
    else
      add_codes(run, run_first, m, lists, at, end, batch, sums);
    before += row * count;
    run_first += run.rows;
  }
}

inline void add_up(const float* sums, int32_t threads, int32_t rows, int32_t outputs, int32_t first, int32_t last, void* y,
                   int32_t y_format) {
  const int64_t next = wina::padded(outputs);
  for (int32_t row = 0; row < rows; ++row) {
    const float* own = sums + row * next;
    for (int32_t j = first; j < last; ++j) {
      float sum = own[j];
      for (int32_t thread = 1; thread < threads; ++thread) sum += own[thread * rows * next + j];
      const int64_t to = int64_t(row) * outputs + j;
      if (y_format == WINA_FLOAT32)
        static_cast<float*>(y)[to] = sum;
      else
        static_cast<uint16_t*>(y)[to] = y_format == WINA_BFLOAT16 ? float_to_bfloat16(sum) : float_to_half(sum);
    }
  }
}

}  // namespace WINA_ISA
