// The step `list` of a product: gate, and list what is kept.
#pragma once
#include "levels.h"

namespace WINA_ISA {

// Fill the lists with the inputs that are kept of x [rows, n].
inline void list_inputs(const wina_weight& weight, const wina_gate& gate, const float* x, int32_t rows, int32_t* keys,
                        uint8_t* marks, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  int32_t key = 0;
  const bool plain = rows == 1 && !weight.order && !gate.mask && key_of_gate(gate, x, n, keys, &key);
  if (!plain) {
    memset(marks, 0, size_t(n));
    for (int32_t row = 0; row < rows; ++row) mark(gate, x + int64_t(row) * n, row, n, keys, marks);
  }
  int32_t count = 0, first = 0;
  for (int32_t run = 0; run < weight.runs; ++run) {
    const int32_t last = first + weight.run[run].rows;
    lists.starts[run] = count;
    count = plain ? list_above(gate, key, x, first, last, count, lists)
                  : list_marked(weight, first, last, marks, rows, x, count, lists);
    first = last;
  }
  lists.starts[weight.runs] = count;
  lists.kept = 0;
  if (rows == 1) {
    memset(lists.marks, 1, size_t(count));
    lists.kept = count;
  } else {
    for (int32_t k = 0; k < count; ++k) lists.kept += __builtin_popcount(lists.marks[k]);
  }
  lists.read = lists.kept;
}

inline void list(const wina_weight& weight, const wina_gate& gate, const void* x, int32_t x_format, int32_t rows,
                 void* scratch, wina::Lists& lists) {
  const int32_t n = weight.inputs;
  auto* values = static_cast<float*>(scratch);
  auto* keys = reinterpret_cast<int32_t*>(values + int64_t(WINA_MOST_ROWS) * n);
  auto* marks = reinterpret_cast<uint8_t*>(keys + 3 * int64_t(n));
  widen(x, x_format, n * rows, values);
  if (weight.planes.starts)
    list_planes(weight, gate, values, rows, keys, marks, lists);
  else
    list_inputs(weight, gate, values, rows, keys, marks, lists);
}

}  // namespace WINA_ISA
