// v = base + R^-1 kappa for many points side by side, and their moments, in single precision.
#pragma once
#include "kernels.hpp"
#include "simd.hpp"

namespace ebo::EBO_ISA {

constexpr int F = 2 * W;               // floats in a vector
constexpr int VECTORS = 3;             // of points side by side: with ROWS they fill the registers
constexpr int ROWS = W == 8 ? 8 : 4;   // of the triangle, at a time
typedef float loose __attribute__((vector_size(4 * F), aligned(4), may_alias));

// Some rows of the triangle from row i on, for N vectors of points; kappa [column][N * F].
template <int R, int N>
EBO_INLINE void multiply(const Triangle& t, size_t i, const float* kappa, float* v, fvec* mean,
                         fvec* square) {
  fvec sum[R][N];
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < N; ++q) sum[r][q] = fvec{} + t.base[i + r];
  const float* const inverse = t.inverse + i * t.stride;
  for (size_t j = 0; j < i + R; ++j, kappa += N * F) {
    fvec k[N];
    for (int q = 0; q < N; ++q) k[q] = *reinterpret_cast<const loose*>(kappa + q * F);
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < N; ++q) sum[r][q] += inverse[r * t.stride + j] * k[q];
  }
  fvec means[N] = {}, squares[N] = {};  // of few rows first: less is lost in rounding
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < N; ++q) {
      *reinterpret_cast<loose*>(v + (i + r) * t.lanes + q * F) = sum[r][q];
      means[q] += t.w[i + r] * sum[r][q];
      squares[q] += sum[r][q] * sum[r][q];
    }
  for (int q = 0; q < N; ++q) {
    mean[q] += means[q];
    square[q] += squares[q];
  }
}

template <int N>
void strip(const Triangle& t, size_t first, float* work, float* v, float* mean, float* square) {
  const size_t count = t.points - first < size_t(N * F) ? t.points - first : size_t(N * F);
  for (size_t j = 0; j < t.n; ++j)
    for (size_t s = 0; s < size_t(N * F); ++s)
      work[j * N * F + s] = s < count ? t.kappa[(first + s) * t.n + j] : 0.0f;
  fvec means[N] = {}, squares[N] = {};
  size_t i = 0;
  for (; i + ROWS <= t.n; i += ROWS) multiply<ROWS, N>(t, i, work, v + first, means, squares);
  for (; i < t.n; ++i) multiply<1, N>(t, i, work, v + first, means, squares);
  for (int q = 0; q < N; ++q) {
    *reinterpret_cast<loose*>(mean + first + q * F) = means[q];
    *reinterpret_cast<loose*>(square + first + q * F) = squares[q];
  }
}

void whiten(const Triangle& t, float* work, float* v, float* mean, float* square) {
  for (size_t first = 0; first < t.points; first += VECTORS * F) {
    const size_t left = t.points - first;
    const auto run = left > 2 * F ? strip<3> : left > F ? strip<2> : strip<1>;
    run(t, first, work, v, mean, square);
  }
}

}  // namespace ebo::EBO_ISA
