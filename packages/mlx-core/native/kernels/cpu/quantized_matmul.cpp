#include "kernels/cpu/quantized_matmul.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/scratch.h"

namespace mlx_runners::cpu {
namespace {

// Bytes of weights in a piece of a product of few rows: many for memory to be read ahead without a
// break, few enough for every thread to get kPiecesPerThread.
constexpr int64_t kMostPieceBytes = 131072;
constexpr int64_t kLeastPieceBytes = 32768;
constexpr int64_t kPiecesPerThread = 3;
// Weights unpacked at a time into rows that are then packed: with all columns of a panel in the
// first-level cache or close to it. A multiple of every block.
constexpr int64_t kUnpackedDepth = 256;
// Bytes of packed codes at a time: blocks of rows find them in the shared cache.
constexpr int64_t kPackedCodes = int64_t{4} << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

const FormatKernels& kernels_of(const WeightMatrix& w) {
  return kernels().formats[static_cast<int>(w.format)];
}

using Products = std::span<const QuantizedProduct>;

/// Columns that the kernels take at a time: pieces begin where such tiles do.
constexpr int64_t kTile = 4;

int64_t tiles_of(const QuantizedProduct& product) { return ceil_div(product.w.columns, kTile); }

int64_t tiles_per_piece(int64_t tiles, int64_t row_bytes) {
  const int64_t bytes = tiles * kTile * row_bytes;
  const int64_t share = bytes / (threads() * kPiecesPerThread);
  int64_t pieces = ceil_div(bytes, std::clamp(share, kLeastPieceBytes, kMostPieceBytes));
  // As many for each thread: all end together.
  if (pieces > threads()) pieces = round_up(pieces, threads());
  return ceil_div(tiles, std::max<int64_t>(pieces, 1));
}

/// Has the addresses of rows [begin, end) translated: side by side and ahead, where one by one and
/// in their midst the arithmetic waits for each page.
void fetch_pages(const WeightRows& w, int64_t begin, int64_t end) {
  constexpr int64_t kPage = 4096;
  for (int64_t at = begin * w.row_bytes; at < end * w.row_bytes + kPage; at += kPage) {
    __builtin_prefetch(w.codes + at, 0, 2);
  }
}

/// Adds bias to a block of a product.
void add_bias(const float* bias, int64_t rows, int64_t columns, float* out, int64_t out_step) {
  for (int64_t r = 0; bias != nullptr && r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      out[r * out_step + n] += bias[n];
    }
  }
}
const float* from(const float* bias, int64_t column) {
  return bias != nullptr ? bias + column : nullptr;
}

// ---- exact ----

using Dot = decltype(FormatKernels::dot_exact);

/// Rows of x one after the other, as `dot` wants them, `step` floats apart: a piece of the weights
/// stays in the second-level cache.
void multiply_piece(const float* x, int64_t step, int64_t rows, const QuantizedProduct& product,
                    int64_t begin, int64_t end, Dot dot) {
  const auto& [w, bias, out] = product;
  fetch_pages(w.rows, begin, end);
  for (int64_t row = 0; row < rows; ++row) {
    dot(w.rows, x + row * step, begin, end, out + row * w.columns);
  }
  add_bias(from(bias, begin), rows, end - begin, out + begin, w.columns);
}

/// Pieces of all columns, one matrix after the other.
void multiply_in_place(const float* x, int64_t step, int64_t rows, Products products, Dot dot) {
  int64_t tiles = 0;
  for (const QuantizedProduct& product : products) {
    tiles += tiles_of(product);
  }
  const int64_t grain = tiles_per_piece(tiles, products[0].w.rows.row_bytes);
  parallel_for(tiles, grain, [&](int64_t begin, int64_t end) {
    for (const QuantizedProduct& product : products) {
      const int64_t first = std::max<int64_t>(begin, 0) * kTile;
      const int64_t last = std::min(end * kTile, product.w.columns);
      if (first < last) multiply_piece(x, step, rows, product, first, last, dot);
      begin -= tiles_of(product);
      end -= tiles_of(product);
    }
  });
}

void multiply_few_exact(const float* x, int64_t rows, Products products) {
  const FormatKernels& format = kernels_of(products[0].w);
  const int64_t depth = products[0].w.rows.depth;
  if (rows > format.max_exact_rows) {
    for (const auto& [w, bias, out] : products) {
      const auto unpack = [&rows_of = w.rows, &format, depth](int64_t row, int64_t present,
                                                              float* to, int64_t step) {
        for (int64_t i = 0; i < present; ++i) {
          format.dequantize(rows_of, row + i, 0, depth, to + i * step);
        }
      };
      matmul_unpacked(x, depth, rows, depth, w.columns, unpack, bias, out);
    }
    return;
  }
  if (format.order_exact == nullptr) {
    multiply_in_place(x, depth, rows, products, format.dot_exact);
    return;
  }
  const int64_t step = format.exact_floats(depth);
  const Scratch ordered(static_cast<size_t>(rows * step));
  for (int64_t row = 0; row < rows; ++row) {
    format.order_exact(x + row * depth, depth, ordered.data() + row * step);
  }
  multiply_in_place(ordered.data(), step, rows, products, format.dot_exact);
}

/// Columns [column, column + present) of panel p, dequantised, as `pack_columns` leaves them.
void pack_exact(const WeightMatrix& w, int64_t column, int64_t present, float* panel) {
  const KernelTable& table = kernels();
  const FormatKernels& format = kernels_of(w);
  const int64_t depth = w.rows.depth;
  constexpr int64_t kStep = kUnpackedDepth + 16;  // rows in different sets of the cache
  const Scratch unpacked(static_cast<size_t>(table.tile_columns * kStep));
  for (int64_t k = 0; k < depth; k += kUnpackedDepth) {
    const int64_t part = std::min(kUnpackedDepth, depth - k);
    for (int64_t i = 0; i < present; ++i) {
      format.dequantize(w.rows, column + i, k, part, unpacked.data() + i * kStep);
    }
    table.pack_columns(unpacked.data(), kStep, present, part, 0, 1, panel + k * table.tile_columns);
  }
}

void multiply_many_exact(const float* x, int64_t rows, const QuantizedProduct& product) {
  const auto& [w, bias, out] = product;
  const int64_t depth = w.rows.depth;
  const int64_t panel_columns = kernels().tile_columns;
  const LeftRows left = plain_matrix(x, rows, depth);
  const auto pack = [&w, depth, panel_columns](int64_t column, int64_t present, int64_t begin,
                                               int64_t end, float* packed) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * panel_columns;
      pack_exact(w, column + first, std::min(panel_columns, present - first),
                 packed + first * depth);
    }
  };
  matmul_packed(left, rows, w.columns, pack, bias, out);
}

void multiply_exact(const float* x, int64_t rows, Products products) {
  if (rows <= kernels().max_dot_rows) {
    multiply_few_exact(x, rows, products);
    return;
  }
  for (const QuantizedProduct& product : products) {
    multiply_many_exact(x, rows, product);
  }
}

// ---- fast ----

/// x rounded to 8 bits.
class RoundedRows {
 public:
  RoundedRows(const float* x, int64_t rows, int64_t depth, int group)
      // An odd number of cache lines between rows keeps them in different sets of the cache.
      : code_floats_((round_up(depth, 128) + 64) / 4),
        scales_(depth / 32),
        sums_(depth / group),
        scratch_(static_cast<size_t>(rows * (code_floats_ + scales_ + sums_))),
        rows_{.codes = reinterpret_cast<int8_t*>(scratch_.data()),
              .code_step = code_floats_ * 4,
              .scales = scratch_.data() + rows * code_floats_,
              .scale_step = scales_,
              .sums = scratch_.data() + rows * (code_floats_ + scales_),
              .sum_step = sums_} {
    const KernelTable& table = kernels();
    const int64_t grain = std::max<int64_t>(1, 16384 / depth);
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      table.quantize_rows(x + begin * depth, depth, end - begin, depth, group, from(begin));
    });
  }

  /// The rows from `row` on.
  ByteRows from(int64_t row) const {
    ByteRows part = rows_;
    part.codes += row * part.code_step;
    part.scales += row * part.scale_step;
    part.sums += row * part.sum_step;
    return part;
  }

 private:
  int64_t code_floats_;
  int64_t scales_;
  int64_t sums_;
  Scratch scratch_;
  ByteRows rows_;
};

struct PackedBytes {
  float* codes;  // four to a float
  float* scales;
  float* offsets;
};

/// Columns [column, column + present) as one panel of BytePanels.
void pack_bytes(const WeightMatrix& w, int64_t column, int64_t present, const PackedBytes& to) {
  const KernelTable& table = kernels();
  const FormatKernels& format = kernels_of(w);
  const int64_t depth = w.rows.depth;
  const int64_t panel = table.tile_columns;
  // More depth at a time than of floats, for as many bytes.
  constexpr int64_t kDepthAtOnce = 4 * kUnpackedDepth;
  constexpr int64_t kCodeStep = kDepthAtOnce / 4 + 16;
  const int64_t group_step = kDepthAtOnce / format.group;
  const Scratch scratch(static_cast<size_t>(panel * (kCodeStep + 2 * group_step)));
  float* codes = scratch.data();
  float* scales = codes + panel * kCodeStep;
  float* offsets = scales + panel * group_step;
  for (int64_t k = 0; k < depth; k += kDepthAtOnce) {
    const int64_t part = std::min(kDepthAtOnce, depth - k);
    for (int64_t i = 0; i < present; ++i) {
      format.unpack(w.rows, column + i, k, part, reinterpret_cast<uint8_t*>(codes + i * kCodeStep),
                    scales + i * group_step, offsets + i * group_step);
    }
    const int64_t group = k / format.group;
    table.pack_columns(codes, kCodeStep, present, part / 4, 0, 1, to.codes + k / 4 * panel);
    table.pack_columns(scales, group_step, present, part / format.group, 0, 1,
                       to.scales + group * panel);
    table.pack_columns(offsets, group_step, present, part / format.group, 0, 1,
                       to.offsets + group * panel);
  }
}

void multiply_many_fast(const RoundedRows& x, int64_t rows, const QuantizedProduct& product) {
  const WeightMatrix& w = product.w;
  const KernelTable& table = kernels();
  const FormatKernels& format = kernels_of(w);
  const int64_t depth = w.rows.depth;
  const int64_t panel_columns = table.tile_columns;
  const int64_t panel_codes = panel_columns * depth / 4;
  const int64_t panel_groups = panel_columns * (depth / format.group);
  const int64_t all_panels = ceil_div(w.columns, panel_columns);
  const int64_t panels = std::clamp<int64_t>(kPackedCodes / (panel_columns * depth), 1, all_panels);
  const Scratch scratch(static_cast<size_t>(panels * (panel_codes + 2 * panel_groups)));
  const PackedBytes packed{.codes = scratch.data(),
                           .scales = scratch.data() + panels * panel_codes,
                           .offsets = scratch.data() + panels * (panel_codes + panel_groups)};
  for (int64_t first = 0; first < all_panels; first += panels) {
    const int64_t column = first * panel_columns;
    const int64_t present = std::min(panels * panel_columns, w.columns - column);
    parallel_for(ceil_div(present, panel_columns), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        pack_bytes(w, column + p * panel_columns,
                   std::min(panel_columns, present - p * panel_columns),
                   {.codes = packed.codes + p * panel_codes,
                    .scales = packed.scales + p * panel_groups,
                    .offsets = packed.offsets + p * panel_groups});
      }
    });
    const auto multiply = [&](const Piece& piece) {
      const int64_t groups = piece.column * (depth / format.group);
      const BytePanels part{
          .codes = reinterpret_cast<const uint8_t*>(packed.codes) + piece.column * depth,
          .scales = packed.scales + groups,
          .offsets = packed.offsets + groups,
          .out = product.out + piece.row * w.columns + column + piece.column,
          .out_step = w.columns,
          .columns = piece.columns,
          .depth = depth};
      format.multiply_bytes(x.from(piece.row), 0, piece.rows, part);
      add_bias(from(product.bias, column + piece.column), piece.rows, piece.columns, part.out,
               part.out_step);
    };
    for_each_piece(rows, table.byte_tile_rows, present, panel_columns, multiply);
  }
}

void multiply_fast(const float* x, int64_t rows, Products products) {
  const FormatKernels& format = kernels_of(products[0].w);
  const int64_t depth = products[0].w.rows.depth;
  const RoundedRows rounded(x, rows, depth, format.group);
  if (rows > format.max_fast_rows) {
    for (const QuantizedProduct& product : products) {
      multiply_many_fast(rounded, rows, product);
    }
    return;
  }
  const int64_t step = format.fast_floats(depth);
  const Scratch ordered(static_cast<size_t>(rows * step));
  for (int64_t row = 0; row < rows; ++row) {
    format.order_fast(rounded.from(row), depth, ordered.data() + row * step);
  }
  multiply_in_place(ordered.data(), step, rows, products, format.dot_fast);
}

}  // namespace

void quantized_matmul(const float* x, int64_t rows, std::span<const QuantizedProduct> products,
                      Precision precision) {
  if (precision == Precision::kFast && kernels_of(products[0].w).dot_fast != nullptr) {
    multiply_fast(x, rows, products);
  } else {
    multiply_exact(x, rows, products);
  }
}

void quantized_matmul(const float* x, int64_t rows, const WeightMatrix& w, const float* bias,
                      Precision precision, float* out) {
  const QuantizedProduct product{.w = w, .bias = bias, .out = out};
  quantized_matmul(x, rows, {&product, 1}, precision);
}

void quantized_take(const WeightMatrix& w, const int64_t* ids, int64_t count, float* out) {
  const FormatKernels& format = kernels_of(w);
  const int64_t depth = w.rows.depth;
  const int64_t grain = std::max<int64_t>(1, 16384 / depth);
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids[i] < 0 ? ids[i] + w.columns : ids[i];
      if (row < 0 || row >= w.columns) {
        std::fill_n(out + i * depth, depth, std::numeric_limits<float>::quiet_NaN());
      } else {
        format.dequantize(w.rows, row, 0, depth, out + i * depth);
      }
    }
  });
}

}  // namespace mlx_runners::cpu
