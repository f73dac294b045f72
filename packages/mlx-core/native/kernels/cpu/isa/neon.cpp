#define MLX_RUNNERS_ISA_NEON
#include "kernels/cpu/isa/kernels.inc.h"
