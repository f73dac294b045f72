#define MLX_RUNNERS_ISA_NEONDOTPROD
#include "kernels/cpu/isa/kernels.inc.h"
