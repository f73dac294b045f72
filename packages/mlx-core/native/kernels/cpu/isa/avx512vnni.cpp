#define MLX_RUNNERS_ISA_AVX512VNNI
#include "kernels/cpu/isa/kernels.inc.h"
