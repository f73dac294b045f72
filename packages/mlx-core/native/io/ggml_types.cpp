#include "io/ggml_types.h"

namespace mlx_runners {
namespace {

constexpr GgmlType plain(uint32_t number, std::string_view name, int bytes,
                         std::string_view dtype) {
  return {number, name, 1, bytes, GgmlType::Kind::Plain, dtype};
}
constexpr GgmlType blocks(uint32_t number, std::string_view name, int weights, int bytes) {
  return {number, name, weights, bytes, GgmlType::Kind::Blocks, "uint8"};
}
constexpr GgmlType other(uint32_t number, std::string_view name, int weights, int bytes) {
  return {number, name, weights, bytes, GgmlType::Kind::Other, ""};
}

constexpr GgmlType types[] = {
    plain(0, "F32", 4, "float32"), plain(1, "F16", 2, "float16"),    blocks(2, "Q4_0", 32, 18),
    blocks(3, "Q4_1", 32, 20),     blocks(6, "Q5_0", 32, 22),        blocks(7, "Q5_1", 32, 24),
    blocks(8, "Q8_0", 32, 34),     other(9, "Q8_1", 32, 36),         other(10, "Q2_K", 256, 84),
    other(11, "Q3_K", 256, 110),   blocks(12, "Q4_K", 256, 144),     blocks(13, "Q5_K", 256, 176),
    blocks(14, "Q6_K", 256, 210),  other(15, "Q8_K", 256, 292),      other(16, "IQ2_XXS", 256, 66),
    other(17, "IQ2_XS", 256, 74),  other(18, "IQ3_XXS", 256, 98),    other(19, "IQ1_S", 256, 50),
    other(20, "IQ4_NL", 32, 18),   other(21, "IQ3_S", 256, 110),     other(22, "IQ2_S", 256, 82),
    other(23, "IQ4_XS", 256, 136), plain(24, "I8", 1, "int8"),       plain(25, "I16", 2, "int16"),
    plain(26, "I32", 4, "int32"),  plain(27, "I64", 8, "int64"),     plain(28, "F64", 8, "float64"),
    other(29, "IQ1_M", 256, 56),   plain(30, "BF16", 2, "bfloat16"), other(34, "TQ1_0", 256, 54),
    other(35, "TQ2_0", 256, 66),   other(39, "MXFP4", 32, 17),       other(40, "NVFP4", 64, 36),
    other(41, "Q1_0", 128, 18),
};

}  // namespace

const GgmlType* ggml_type(uint32_t number) {
  for (const GgmlType& type : types) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

}  // namespace mlx_runners
