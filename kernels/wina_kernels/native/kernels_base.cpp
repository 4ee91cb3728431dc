#define WINA_ISA wina_base
#include "numbers.h"
#include "vectors_128.h"
// the vectors come first
#include "product.h"
#include "token_decoder.h"

extern const wina::Kernels wina_kernels_base;
const wina::Kernels wina_kernels_base = {"portable", WINA_ISA::gate_rows, WINA_ISA::list,
    WINA_ISA::multiply, WINA_ISA::add_up, WINA_ISA::token::decode};
