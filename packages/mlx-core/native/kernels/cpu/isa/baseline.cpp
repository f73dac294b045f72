#define MLX_RUNNERS_ISA_BASELINE
#include "kernels/cpu/isa/kernels.inc.h"
