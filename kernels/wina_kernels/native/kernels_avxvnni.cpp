#define WINA_ISA wina_avxvnni
#include "numbers.h"
#include "vectors_avx2.h"
// the vectors come first
#include "product.h"
#include "token_decoder.h"

extern const wina::Kernels wina_kernels_avxvnni;
const wina::Kernels wina_kernels_avxvnni = {"avxvnni", WINA_ISA::gate_rows, WINA_ISA::list,
    WINA_ISA::multiply, WINA_ISA::add_up, WINA_ISA::token::decode};
