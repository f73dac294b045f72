#include "kernels/cpu/fused_primitive.h"

#include <stdexcept>
#include <string>

#include "mlx/ops.h"
#include "mlx/transforms.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

constexpr size_t kSpareBytes = 16384;

thread_local int mlx_primitives_only = 0;

/// Copies float32 elements in row-major order, whatever the strides.
void copy_strided(const float* from, const mx::Shape& shape, const mx::Strides& strides,
                  size_t size, float* to) {
  const int axes = static_cast<int>(shape.size());
  const int64_t row = shape[axes - 1];
  const int64_t step = strides[axes - 1];
  std::vector<int64_t> index(axes, 0);
  int64_t offset = 0;
  for (const float* const end = to + size; to < end; to += row) {
    for (int64_t i = 0; i < row; ++i) {
      to[i] = from[offset + i * step];
    }
    for (int axis = axes - 2; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) {
        break;
      }
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

void FusedPrimitive::eval_cpu(const std::vector<mx::array>&, mx::array&) {
  throw std::logic_error(std::string("[") + name() + "] implements no eval_cpu.");
}

void FusedPrimitive::eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) {
  throw std::runtime_error(std::string("[") + name() + "] is a CPU kernel and has no GPU form.");
}

/// The composed form as a function of the inputs named by `argnums` alone.
Composed FusedPrimitive::by_argnums(const std::vector<mx::array>& primals,
                                    const std::vector<int>& argnums) const {
  return [composed = composed_, primals, argnums](const std::vector<mx::array>& chosen) {
    std::vector<mx::array> inputs = primals;
    for (size_t i = 0; i < argnums.size(); ++i) {
      inputs[argnums[i]] = chosen[i];
    }
    return composed(inputs);
  };
}

std::vector<mx::array> FusedPrimitive::vjp(const std::vector<mx::array>& primals,
                                           const std::vector<mx::array>& cotangents,
                                           const std::vector<int>& argnums,
                                           const std::vector<mx::array>&) {
  std::vector<mx::array> chosen;
  for (const int i : argnums) {
    chosen.push_back(primals[i]);
  }
  return mx::vjp(by_argnums(primals, argnums), chosen, cotangents).second;
}

std::vector<mx::array> FusedPrimitive::jvp(const std::vector<mx::array>& primals,
                                           const std::vector<mx::array>& tangents,
                                           const std::vector<int>& argnums) {
  std::vector<mx::array> chosen;
  for (const int i : argnums) {
    chosen.push_back(primals[i]);
  }
  return mx::jvp(by_argnums(primals, argnums), chosen, tangents).second;
}

std::pair<std::vector<mx::array>, std::vector<int>> FusedPrimitive::vmap(
    const std::vector<mx::array>& inputs, const std::vector<int>& axes) {
  std::vector<mx::array> outputs = mx::vmap(composed_, axes)(inputs);
  return {outputs, std::vector<int>(outputs.size(), 0)};
}

MlxPrimitivesOnly::MlxPrimitivesOnly() { ++mlx_primitives_only; }
MlxPrimitivesOnly::~MlxPrimitivesOnly() { --mlx_primitives_only; }
bool MlxPrimitivesOnly::active() { return mlx_primitives_only > 0; }

mx::array contiguous(const mx::array& x, const mx::Stream& stream) {
  const bool fits = MlxPrimitivesOnly::active() || (x.is_available() && x.flags().row_contiguous);
  return fits ? x : mx::contiguous(x, false, stream);
}

bool can_fuse(const mx::Stream& stream,
              std::initializer_list<std::reference_wrapper<const mx::array>> arrays) {
  if (stream.device != mx::Device::cpu || MlxPrimitivesOnly::active()) {
    return false;
  }
  for (const mx::array& x : arrays) {
    if (x.dtype() != mx::float32 || x.size() == 0 || x.is_tracer()) {
      return false;
    }
  }
  return true;
}

mx::array inexact(const mx::array& x, const mx::Stream& stream) {
  return mx::issubdtype(x.dtype(), mx::inexact) ? x : mx::astype(x, mx::float32, stream);
}

void allocate(mx::array& out) { out.set_data(mx::allocator::malloc(out.nbytes())); }

mx::array row_contiguous(const mx::array& x, const mx::Stream& stream) {
  if (x.flags().row_contiguous) {
    return x;
  }
  mx::array copy(x.shape(), x.dtype(), nullptr, {});
  allocate(copy);
  dispatch(stream,
           [from = x.data<float>(), shape = x.shape(), strides = x.strides(), size = x.size(),
            to = copy.data<float>()] { copy_strided(from, shape, strides, size, to); });
  mx::cpu::get_command_encoder(stream).add_temporary(copy);
  return copy;
}

mx::array contiguous_rows(const mx::array& x, const mx::Stream& stream) {
  return x.strides(-1) == 1 || x.shape(-1) == 1 ? x : row_contiguous(x, stream);
}

void allocate_heads_like(const mx::array& like, mx::array& out) {
  const int64_t heads = out.shape(1);
  const int64_t positions = out.shape(2);
  const int64_t dim = out.shape(3);
  if (heads == 1 || positions == 1 || like.strides(1) >= like.strides(2)) {
    allocate(out);
    return;
  }
  out.set_data(mx::allocator::malloc(out.nbytes()), out.size(),
               {positions * heads * dim, dim, heads * dim, 1},
               {.contiguous = true,
                .row_contiguous = false,
                .col_contiguous = dim == 1 && out.shape(0) == 1});
}

bool can_reuse(const mx::array& x) {
  return x.is_donatable() && x.buffer_size() <= x.nbytes() + kSpareBytes;
}

mx::array share_layout(const mx::array& x, mx::array& out, const mx::Stream& stream) {
  if (!x.flags().contiguous || x.ndim() == 0 || x.strides(-1) != 1) {
    const mx::array rows = row_contiguous(x, stream);
    allocate(out);
    return rows;
  }
  if (can_reuse(x)) {
    out.copy_shared_buffer(x);
  } else {
    out.set_data(mx::allocator::malloc(x.data_size() * x.itemsize()), x.data_size(), x.strides(),
                 x.flags());
  }
  return x;
}

}  // namespace mlx_runners::cpu
