// The C ABI of the library, and the types that it shares with C++. Python's mirror is native/abi.py.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WINA_ABI = 5, WINA_MOST_RUNS = 4, WINA_MOST_ROWS = 8, WINA_MOST_PLANES = 6 };
enum wina_format { WINA_NONE = 0, WINA_FLOAT32 = 32, WINA_BFLOAT16 = 16, WINA_FLOAT16 = 17 };

// Rows of W^T in one format. W^T[i, j] = (code - centre - zero[g, j]) * scale[g, j], g = i / group.
typedef struct {
  int32_t format;  // a wina_format, or the bits of a code: 8 (int8), 6, 4, 3, 2 (planes, see packing.py)
  int32_t rows, group;
  int32_t scale_format, zero_format;
  float centre;  // what codes below 8 bits are stored higher by
  const void *codes, *scale, *zero;  // of codes of 2 bits in graded rows, scale and zero are null
  int64_t stride, scale_stride, zero_stride;  // bytes between rows
} wina_run;

// Inputs with several rows each, of one run (planes.py): W^T[i, j] = scale[i] * sum of 4^-p (code - centre) over its rows
// p = 0, 1, ... A gate grades the inputs that it keeps: an input is read in one row, and in one more for each factor of
// the ladder with score >= factor * (lowest kept score, or threshold). All rows are read without a gate: with a mask or a
// negative threshold.
typedef struct {
  const int32_t* starts;  // [inputs + 1] the first row of each input; null for weights with a row an input
  const uint16_t* scale;  // float16 [inputs]
  float ladder[WINA_MOST_PLANES - 1];
} wina_planes;

typedef struct {
  int32_t inputs, outputs, runs;
  const int32_t* order;  // the input of each stored row; null if they are in order
  wina_run run[WINA_MOST_RUNS];
  wina_planes planes;
} wina_weight;

// What is kept of each row of x: where mask is not 0, else scores |x_i| scale_i above the threshold, but at least the `keep`
// highest, the lower index first among equals; with a negative threshold exactly these, or if keep is 0 everything. A NaN
// is above everything.
typedef struct {
  const uint8_t* mask;  // [rows, n] or null
  const float* scale;   // [n], null for ones
  float threshold;
  int32_t keep;
} wina_gate;

// Inputs kept, and rows of W^T read, each summed over the rows of x.
typedef struct {
  int64_t kept, read;
} wina_counts;

// Set y [rows, m] to the products with what is kept of x [rows, n], 1 to 8 contiguous rows; return 0, or -1 without
// memory.
int32_t wina_product(const wina_weight* weight, const wina_gate* gate, const void* x, int32_t x_format, int32_t rows,
                     void* y, int32_t y_format, int32_t threads, wina_counts* counts);

// Set out [rows, inputs] to x [rows, inputs] with 0 for inputs that are not kept, and kept [rows] to their number; copy
// rows where `whole` [rows] is not 0 (null for none). The gate has no mask. Return 0, or -1 without memory.
int32_t wina_gate_rows(const wina_gate* gate, const void* x, int32_t format, int64_t rows, int32_t inputs,
                       const uint8_t* whole, void* out, int32_t* kept, int32_t threads);

// Set y [rows, outputs] to x [rows, inputs] W^T [inputs, outputs] + bias [outputs] or null, all bfloat16 but y, which
// may be float32, rows of W^T `stride` numbers apart, an even number of inputs; return 0, 1 where the processor has no or
// better instructions for it, or -1 without memory.
int32_t wina_many_rows(const void* weight_t, int64_t stride, int32_t inputs, int32_t outputs, const void* bias, const void* x,
                       int64_t rows, void* y, int32_t y_format, int32_t threads);

// Use a team of OpenMP for parallel work: the addresses of GOMP_parallel, omp_get_num_threads and omp_get_thread_num.
void wina_use_openmp(void* parallel, void* team_size, void* team_thread);

const char* wina_instructions(void);           // name of the instruction set in use
int32_t wina_use_instructions(const char* name);  // 1 if this processor has them
int32_t wina_abi(void);

#ifdef __cplusplus
}
#endif
