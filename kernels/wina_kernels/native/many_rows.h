// The product of many rows: prompts and batches.
#pragma once
#include "wina.h"

namespace wina {

// y [rows, outputs] = x [rows, inputs] W^T [inputs, outputs] + bias [outputs] or null, all bfloat16 but y, which
// may be float32; an even number of inputs. Rows of W^T are `stride` numbers apart.
struct ManyRows {
  const uint16_t* weight_t;
  int64_t stride;
  int32_t inputs, outputs;
  const uint16_t* bias;
  const uint16_t* x;
  int32_t rows;
  void* y;
  int32_t y_format;

  int64_t y_bytes() const { return y_format == WINA_FLOAT32 ? 4 : 2; }  // of a number
};

// Return false without memory.
bool many_rows_avx512bf16(const ManyRows& given, int32_t threads);

}  // namespace wina
