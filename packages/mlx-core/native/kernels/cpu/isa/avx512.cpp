#define MLX_RUNNERS_ISA_AVX512
#include "kernels/cpu/isa/kernels.inc.h"
