// Rows of mlx/fft.h.
#include "mlx/fft.h"

#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using S = mx::StreamOrDevice;

array fft(const array& a, std::optional<int> n, int axis, S s) {
  return n ? mx::fft::fft(a, *n, axis, mx::fft::FFTNorm::Backward, s)
           : mx::fft::fft(a, axis, mx::fft::FFTNorm::Backward, s);
}
array ifft(const array& a, std::optional<int> n, int axis, S s) {
  return n ? mx::fft::ifft(a, *n, axis, mx::fft::FFTNorm::Backward, s)
           : mx::fft::ifft(a, axis, mx::fft::FFTNorm::Backward, s);
}
array rfft(const array& a, std::optional<int> n, int axis, S s) {
  return n ? mx::fft::rfft(a, *n, axis, mx::fft::FFTNorm::Backward, s)
           : mx::fft::rfft(a, axis, mx::fft::FFTNorm::Backward, s);
}
array irfft(const array& a, std::optional<int> n, int axis, S s) {
  return n ? mx::fft::irfft(a, *n, axis, mx::fft::FFTNorm::Backward, s)
           : mx::fft::irfft(a, axis, mx::fft::FFTNorm::Backward, s);
}

}  // namespace

std::vector<Op> fft_rows() {
  return {
      op("fft", "Discrete Fourier transform along an axis.", fft, arg("a"), opt("n", none),
         opt("axis", -1)),
      op("ifft", "Inverse of `fft`.", ifft, arg("a"), opt("n", none), opt("axis", -1)),
      op("rfft", "Fourier transform of real numbers: n / 2 + 1 complex results.", rfft, arg("a"),
         opt("n", none), opt("axis", -1)),
      op("irfft", "Inverse of `rfft`.", irfft, arg("a"), opt("n", none), opt("axis", -1)),
  };
}

}  // namespace mlx_runners
