#include "lm/cached_attention.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "core/errors.h"
#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/pool.h"
#include "lm/attend.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/transforms.h"

namespace mlx_runners::lm {
namespace {

// Rows of keys or values [batch, heads, tokens, size], the last axis contiguous.
struct Rows {
  const float* data;
  int64_t batch, heads, tokens;
  int64_t strides[3];

  explicit Rows(const mx::array& x)
      : data(x.data<float>()), batch(x.shape(0)), heads(x.shape(1)), tokens(x.shape(2)) {
    std::copy_n(x.strides().begin(), 3, strides);
  }
};

void write(const Rows& rows, const std::vector<SlotRun>& runs, KvPool& pool) {
  cpu::parallel_for(rows.batch * rows.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      const float* x =
          rows.data + head / rows.heads * rows.strides[0] + head % rows.heads * rows.strides[1];
      for (const auto& run : runs) {
        for (int slot = run.begin; slot < run.end; ++slot, x += rows.strides[2]) {
          pool.write(head * pool.slots() + slot, x);
        }
      }
    }
  });
}

// Token b of a batch goes to cells[b], or none anywhere.
void write_cells(const Rows& rows, const std::vector<int>& cells, KvPool& pool) {
  cpu::parallel_for(static_cast<int64_t>(cells.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      for (int64_t head = 0; head < rows.heads; ++head) {
        pool.write(head * pool.slots() + cells[token],
                   rows.data + token * rows.strides[0] + head * rows.strides[1]);
      }
    }
  });
}

// Puts a step's tokens into the pools and attends; what and where, the task says.
class CachedAttention final : public mx::UnaryPrimitive {
 public:
  using Task = std::function<void(const cpu::Attention&, const Rows& keys, const Rows& values)>;

  CachedAttention(mx::Stream stream, const LayerTokens& tokens, Task task)
      : UnaryPrimitive(stream),
        scale_(tokens.scale),
        window_(tokens.window),
        softcap_(tokens.softcap),
        task_(std::move(task)) {}
  DEFINE_NAME(CachedAttention)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array q = cpu::contiguous_rows(inputs[0], stream());
    const mx::array k = cpu::contiguous_rows(inputs[1], stream());
    const mx::array v = cpu::contiguous_rows(inputs[2], stream());
    cpu::allocate_heads_like(q, out);
    cpu::Attention op{};
    op.q = q.data<float>();
    op.out = out.data<float>();
    op.causal = true;
    op.window = window_;
    op.softcap = softcap_;
    op.scale = scale_;
    op.heads = q.shape(1);
    op.kv_heads = k.shape(1);
    op.queries = q.shape(2);
    op.dim = q.shape(3);
    op.value_dim = v.shape(3);
    std::copy_n(q.strides().begin(), 3, op.q_strides);
    std::copy_n(out.strides().begin(), 3, op.out_strides);
    cpu::dispatch(stream(),
                  [op, keys = Rows(k), values = Rows(v), task = task_] { task(op, keys, values); });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
    throw std::runtime_error("[updateAndAttend] is a CPU kernel and has no GPU form.");
  }

 private:
  float scale_;
  int window_;
  float softcap_;
  Task task_;
};

mx::array cached_attention(const LayerTokens& tokens, CachedAttention::Task task,
                           mx::Stream stream) {
  mx::Shape shape = tokens.q.shape();
  shape.back() = tokens.v.shape(-1);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<CachedAttention>(stream, tokens, std::move(task)),
                   {tokens.q, tokens.k, tokens.v});
}

}  // namespace

std::vector<int> positions_of(const IntOrArray& position, int count, mx::Stream stream) {
  if (const int* number = std::get_if<int>(&position)) {
    if (count == 1) return {*number};
  } else if (const auto& given = std::get<mx::array>(position);
             given.size() == static_cast<size_t>(count) &&
             mx::issubdtype(given.dtype(), mx::integer)) {
    mx::array array = mx::contiguous(mx::astype(given, mx::int32, stream), false, stream);
    mx::eval(array);
    return {array.data<int32_t>(), array.data<int32_t>() + count};
  }
  throw CodedError("SHAPE", count == 1 ? "position has to be one integer"
                                       : "position has to be an array of " + std::to_string(count) +
                                             " integers");
}

void append_arrays(const KvPools& pools, std::vector<mx::array>& arrays) {
  for (const KvPool* pool : {&pools.keys, &pools.values}) {
    arrays.insert(arrays.end(), pool->arrays().begin(), pool->arrays().end());
  }
}

mx::array attention_in_place(const LayerTokens& tokens, std::shared_ptr<KvPools> pools,
                             SequenceSlots slots, mx::Stream stream) {
  const auto task = [pools = std::move(pools), slots = std::move(slots)](
                        const cpu::Attention& op, const Rows& keys, const Rows& values) {
    write(keys, slots.write, pools->keys);
    write(values, slots.write, pools->values);
    attend(op, pools->keys, pools->values, slots.read);
  };
  return cached_attention(tokens, task, stream);
}

mx::array cell_attention_in_place(const LayerTokens& tokens, std::shared_ptr<KvPools> pools,
                                  std::vector<int> cells, std::vector<CellGroup> groups,
                                  mx::Stream stream) {
  const auto task = [pools = std::move(pools), cells = std::move(cells),
                     groups = std::move(groups)](const cpu::Attention& op, const Rows& keys,
                                                 const Rows& values) {
    write_cells(keys, cells, pools->keys);
    write_cells(values, cells, pools->values);
    cpu::parallel_for(static_cast<int64_t>(groups.size()), 1, [&](int64_t index, int64_t) {
      const CellGroup& group = groups[index];
      // The batch's tokens are this sequence's positions.
      cpu::Attention part = op;
      part.q += group.begin * op.q_strides[0];
      part.out += group.begin * op.out_strides[0];
      part.q_strides[2] = op.q_strides[0];
      part.out_strides[2] = op.out_strides[0];
      part.queries = group.count;
      part.window = group.window;
      attend(part, pools->keys, pools->values, group.cells);
    });
  };
  return cached_attention(tokens, task, stream);
}

}  // namespace mlx_runners::lm
