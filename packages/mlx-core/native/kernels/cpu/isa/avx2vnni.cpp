#define MLX_RUNNERS_ISA_AVX2VNNI
#include "kernels/cpu/isa/kernels.inc.h"
