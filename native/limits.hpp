// One group's part of a limit kernel between many points, in single precision.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ebo {

// e^-x for x >= 0, to about 2e-7 relative; 0 beyond 87. Without branches, so that the compiler makes
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
  return x < 87.0f ? root * root * scale : 0.0f;
}

// P [row][all dims]; T [dim][column], with `stride` floats between dims; out [row][column].
// Laplace: scale exp(-sum_d k_d |p_d - t_d|). Hat: scale prod_d max(0, 1 - k_d |p_d - t_d|).
// A categorical dimension makes the similarity zero where the values differ.
inline void limit_gram(bool laplace, const float* P, size_t rows, size_t all_dims, const float* T,
                       size_t columns, size_t stride, const int64_t* group, size_t dims,
                       const float* cuts, const uint8_t* categorical, float scale, float* out) {
  for (size_t i = 0; i < rows; ++i) {
    float* __restrict row = out + i * columns;
    for (size_t j = 0; j < columns; ++j) row[j] = laplace ? 0.0f : scale;
    for (size_t g = 0; g < dims; ++g) {
      const size_t d = static_cast<size_t>(group[g]);
      const float p = P[i * all_dims + d], k = cuts[d];
      const float* __restrict t = T + d * stride;
      if (categorical[d] && laplace)
        for (size_t j = 0; j < columns; ++j) row[j] += p == t[j] ? 0.0f : 1e30f;
      else if (categorical[d])
        for (size_t j = 0; j < columns; ++j) row[j] *= p == t[j] ? 1.0f : 0.0f;
      else if (laplace)
        for (size_t j = 0; j < columns; ++j) row[j] += k * std::fabs(p - t[j]);
      else
        for (size_t j = 0; j < columns; ++j) {
          const float s = 1.0f - k * std::fabs(p - t[j]);
          row[j] *= s > 0.0f ? s : 0.0f;
        }
    }
    if (laplace)
      for (size_t j = 0; j < columns; ++j) row[j] = scale * exp_minus(row[j]);
  }
}

}  // namespace ebo
