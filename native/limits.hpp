// Limit kernels, and a smooth one, between many points in single precision.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"

namespace ebo {
namespace EBO_ISA {

// e^-x for x >= 0, to about 2e-7 relative; 1e-38 beyond 87. Without branches, so that the compiler makes
// vectors of the loops around it: 2^y = 2^whole 2^fraction, the latter by a series.
inline float exp_minus(float x) {
  const float y = -1.44269504f * (x < 87.0f ? x : 87.0f);
  const int32_t whole = static_cast<int32_t>(y);  // towards zero
  const float fraction = y - static_cast<float>(whole);  // in (-1, 0]
  const float h = 0.5f * 0.693147181f * fraction;  // half of it: the series is short, then squared
  const float root =
      1.0f + h * (1.0f + h * (0.5f + h * (1.66666667e-1f +
             h * (4.16666667e-2f + h * (8.33333333e-3f + h * 1.38888889e-3f)))));
  const int32_t bits = (whole + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return root * root * scale;
}

// row[j] += scale times the similarity of a point p and the points T in the dimensions of a group:
// exp(-sum_d k_d |p_d - t_d|), or prod_d max(0, 1 - k_d |p_d - t_d|).
inline void add_similarity(const LimitPoints& limit, const float* p, const int64_t* group, size_t dims,
                           float scale, float* __restrict work, float* __restrict row) {
  const size_t n = limit.columns;
  const bool laplace = limit.laplace;
  for (size_t j = 0; j < n; ++j) work[j] = laplace ? 0.0f : 1.0f;
  for (size_t g = 0; g < dims; ++g) {
    const size_t d = static_cast<size_t>(group[g]);
    const float x = p[d], k = limit.cuts[d];
    const float* __restrict t = limit.T + d * limit.stride;
    if (limit.categorical[d] && laplace)
      for (size_t j = 0; j < n; ++j) work[j] += x == t[j] ? 0.0f : 1e30f;
    else if (limit.categorical[d])
      for (size_t j = 0; j < n; ++j) work[j] *= x == t[j] ? 1.0f : 0.0f;
    else if (laplace)
      for (size_t j = 0; j < n; ++j) work[j] += k * std::fabs(x - t[j]);
    else
      for (size_t j = 0; j < n; ++j) {
        const float s = 1.0f - k * std::fabs(x - t[j]);
        work[j] *= s > 0.0f ? s : 0.0f;
      }
  }
  if (laplace)
    for (size_t j = 0; j < n; ++j) row[j] += scale * exp_minus(work[j]);
  else
    for (size_t j = 0; j < n; ++j) row[j] += scale * work[j];
}

// square[j] += sum_d (k_d (p_d - t_d))^2 over some dimensions, a categorical one k_d^2 where unequal.
inline void add_square_distance(const LimitPoints& limit, const float* p, const int64_t* group,
                                size_t dims, float* __restrict square) {
  const size_t n = limit.columns;
  for (size_t g = 0; g < dims; ++g) {
    const size_t d = static_cast<size_t>(group[g]);
    const float x = p[d], k = limit.cuts[d];
    const float* __restrict t = limit.T + d * limit.stride;
    if (limit.categorical[d])
      for (size_t j = 0; j < n; ++j) square[j] += x == t[j] ? 0.0f : k * k;
    else
      for (size_t j = 0; j < n; ++j) {
        const float s = k * (x - t[j]);
        square[j] += s * s;
      }
  }
}

// row[j] = scale times the Matern 5/2 similarity at a squared distance.
inline void matern(const float* __restrict square, size_t n, float scale, float* __restrict row) {
  for (size_t j = 0; j < n; ++j) {
    const float r = std::sqrt(5.0f * square[j]);
    row[j] = scale * (1.0f + r * (1.0f + r * (1.0f / 3.0f))) * exp_minus(r);
  }
}

}  // namespace EBO_ISA
}  // namespace ebo
