#define MLX_RUNNERS_ISA_AVX2
#include "kernels/cpu/isa/kernels.inc.h"
