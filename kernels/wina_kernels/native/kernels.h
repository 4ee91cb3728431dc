// The steps of a gated product, in the instruction set of this processor.
#pragma once
#include "token.h"

namespace wina {

// Stored rows of W^T that any row of x reads, ascending.
struct Lists {
  int64_t room;     // of each list: `room_of` the weight
  int32_t* rows;    // [room] stored rows
  uint8_t* marks;   // [room] beside them: bit r is set if row r of x reads it
  float* values;    // [rows of x][room] beside them: x, in planes times the row's scale, or 0 where row r drops it
  int32_t starts[WINA_MOST_RUNS + 1];  // where each run's rows begin in these lists, and the end of all
  int64_t kept, read;  // inputs kept and stored rows read, summed over the rows of x
};

// Numbers that the lists of a weight need: its stored rows, and what vectors write behind them.
inline int64_t room_of(const wina_weight& weight) {
  int64_t rows = 16;
  for (int32_t run = 0; run < weight.runs; ++run) rows += weight.run[run].rows;
  return rows;
}

// Outputs of a row of sums: every block of codes that a kernel reads has whole blocks of sums.
inline int64_t padded(int32_t outputs) { return (int64_t(outputs) + 511) / 512 * 512; }

// Bytes of scratch memory that `list` needs.
inline int64_t scratch_bytes(int32_t inputs) { return int64_t(inputs) * ((WINA_MOST_ROWS + 3) * 4 + WINA_MOST_ROWS) + 64; }

// Rows that are gated without a product.
struct Rows {
  const void* x;         // [rows, inputs]
  int32_t format;        // of x and out
  int32_t inputs;
  const uint8_t* whole;  // [rows] not 0 for a row that is copied; null if none is
  void* out;             // [rows, inputs]
  int32_t* kept;         // [rows]
};

struct Kernels {
  const char* name;

  // Set out to x with 0 for inputs that are not kept, in rows first .. last; scratch has 4 inputs numbers.
  void (*gate)(const wina_gate& gate, const Rows& x, int64_t first, int64_t last, int32_t* scratch);

  // Gate x [rows, n] and fill the lists, whose memory and room are given; one thread.
  void (*list)(const wina_weight& weight, const wina_gate& gate, const void* x, int32_t x_format, int32_t rows,
               void* scratch, Lists& lists);

  // Set sums [rows][padded(m)] to the products with this thread's share of the lists, [thread] of [threads].
  void (*multiply)(const wina_weight& weight, const Lists& lists, int32_t rows, int32_t thread, int32_t threads,
                   float* sums);

  // Set y [rows, m] to the sums of all threads, float [threads][rows][padded(m)], for outputs first .. last.
  void (*add_up)(const float* sums, int32_t threads, int32_t rows, int32_t outputs, int32_t first, int32_t last,
                 void* y, int32_t y_format);

  // Read a token as `wina_decode` does.
  int32_t (*decode)(const Kernels& kernels, const wina_model& model, const wina_cache& cache, int32_t token,
                    int32_t position, bool gated, int32_t threads, float* logits);
};

// The kernels of the best instruction set that this processor has.
const Kernels& kernels();

}  // namespace wina
