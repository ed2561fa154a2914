// Log-likelihoods of candidate Gram matrices, Eq. (gploglike) of the paper:
//   log p(D) = -1/2 y' (K + noise I)^-1 y - 1/2 log |K + noise I|.
//
// One loop makes the Gram matrix, factorises it and solves with it, a panel of
// rows at a time, while the panel is in the nearest cache. Two layouts:
//
//   Interleaved  one vector lane per candidate; a panel has PH rows. The tile of
//                PH x CT elements is held in registers while k runs. No lane is
//                ever idle in the triangle, which is what counts when n is small.
//   Single       one candidate, vector lanes along W rows (a panel has W rows);
//                the tile is R panels by W columns. Needs 1/W of the memory, which
//                is what counts when n is large.
//
// In both every element sees the same operations in the same order: the row
// times column products in the order of k, then the division by the pivot.
#pragma once
#include "kernels.hpp"
#include "simd.hpp"

namespace ebo::EBO_ISA {

// log of a long product of pivots: logarithms are dear, so they are taken once in
// 16 pivots, each of which lies between the noise (>= 1e-8) and 1 + noise.
template <class Number>
class LogProduct {
 public:
  EBO_INLINE void multiply(Number pivot) {
    product_ *= pivot;
    if (++count_ % 16 == 0) flush();
  }
  EBO_INLINE Number value() {
    flush();
    return sum_;
  }

 private:
  EBO_INLINE void flush() {
    sum_ += logarithm(product_);
    product_ = Number{} + 1.0;
  }
  Number product_ = Number{} + 1.0;
  Number sum_{};
  int count_ = 0;
};

template <class Sim>
struct Interleaved {
#if EBO_LANES == 8
  static constexpr int PH = 4, CT = 4;  // 16 sums in 32 registers
#else
  static constexpr int PH = 6, CT = 2;  // 12 sums in 16 registers
#endif
  using word = typename Sim::word;

  const Candidates& c;
  const size_t pairs = pair_count(c.n, PH);
  vec* const factor = reinterpret_cast<vec*>(c.factor);
  vec* const pivots = reinterpret_cast<vec*>(c.pivots);
  vec* const whitened = reinterpret_cast<vec*>(c.whitened);
  const vec scale = as_vec(c.scale);
  const vec scaled_offset = scale * as_vec(c.offset);

  // Pair q of the Gram matrices.
  EBO_INLINE vec gram(size_t q) const {
    const auto* varying = static_cast<const word*>(c.varying);
    const auto* fixed = static_cast<const word*>(c.fixed);
    vec element = scale * c.total[q] + scaled_offset;
    for (int w = 0; w < c.words; ++w, q += pairs)
      element -= scale * Sim::weight(as_vec(varying + q * W), broadcast(fixed[q]));
    return element;
  }

  // Where registers are few, the constants of `gram` would drive the sums out of them: there the
  // Gram matrix of a panel is made before, and else when its tile is reached.
  static constexpr bool gram_first = W < 8;
  __attribute__((noinline)) void fill(int i) const {
    for (size_t q = panel_start(i, PH); q < panel_start(i + 1, PH); ++q) factor[q] = gram(q);
  }

  // The tile of panel i's rows and CT of panel j's columns from its `first` on, less what the
  // columns before explain of it.
  template <bool is_diagonal>
  EBO_INLINE void unexplained(vec (&sum)[PH][CT], int i, int j, int first) const {
    const vec* row = factor + panel_start(i, PH);
    const vec* other = factor + panel_start(j, PH) + first;
    const int column = j * PH + first;
    const size_t pair = panel_start(i, PH) + size_t(column) * PH;
#pragma GCC unroll 8
    for (int t = 0; t < CT; ++t)
#pragma GCC unroll 8
      for (int r = 0; r < PH; ++r) {
        const size_t q = pair + t * PH + r;
        sum[r][t] = gram_first ? factor[q] : gram(q);
      }
    if (is_diagonal)
#pragma GCC unroll 8
      for (int t = 0; t < CT; ++t) sum[first + t][t] = 1.0 + as_vec(c.noise);
#pragma GCC unroll 2
    for (int k = 0; k < column; ++k, row += PH, other += PH)
#pragma GCC unroll 8
      for (int r = 0; r < PH; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < CT; ++t) sum[r][t] -= row[r] * other[t];
  }

  // Columns of panel j in panel i > j.
  void below(int i, int j) const {
    vec* row = factor + panel_start(i, PH);
    const vec* square = factor + panel_start(j, PH) + j * PH * PH;  // panel j in itself
#pragma GCC unroll 8
    for (int first = 0; first < PH; first += CT) {
      const int column = j * PH + first;
      vec sum[PH][CT];
      unexplained<false>(sum, i, j, first);
#pragma GCC unroll 8
      for (int t = 0; t < CT; ++t)
#pragma GCC unroll 8
        for (int r = 0; r < PH; ++r) {
          vec x = sum[r][t];
#pragma GCC unroll 8
          for (int s = 0; s < t; ++s) x -= sum[r][s] * square[(first + s) * PH + first + t];
          sum[r][t] = x * pivots[column + t];
          row[(column + t) * PH + r] = sum[r][t];
        }
    }
  }

  // Columns of panel i in itself.
  void diagonal_square(int i, LogProduct<vec>& determinant) const {
    vec* row = factor + panel_start(i, PH);
#pragma GCC unroll 8
    for (int first = 0; first < PH; first += CT) {
      const int column = i * PH + first;
      vec sum[PH][CT];
      unexplained<true>(sum, i, i, first);
#pragma GCC unroll 8
      for (int t = 0; t < CT; ++t) {
        const vec pivot = sum[first + t][t];
        const vec inverse = reciprocal_sqrt(pivot);
        pivots[column + t] = inverse;
        if (column + t < c.n) determinant.multiply(pivot);
#pragma GCC unroll 8
        for (int r = 0; r < PH; ++r) {
          sum[r][t] *= inverse;
          row[(column + t) * PH + r] = sum[r][t];
        }
#pragma GCC unroll 8
        for (int s = t + 1; s < CT; ++s)
#pragma GCC unroll 8
          for (int r = 0; r < PH; ++r) sum[r][s] -= sum[r][t] * sum[first + s][t];
      }
    }
  }

  // Adds the squares of panel i's part of L^-1 y.
  EBO_INLINE void solve(int i, vec* square) const {
    const vec* row = factor + panel_start(i, PH);
    vec rest[PH];
#pragma GCC unroll 8
    for (int r = 0; r < PH; ++r) rest[r] = broadcast(i * PH + r < c.n ? c.y[i * PH + r] : 0.0);
    for (int k = 0; k < i * PH; ++k)
#pragma GCC unroll 8
      for (int r = 0; r < PH; ++r) rest[r] -= row[k * PH + r] * whitened[k];
#pragma GCC unroll 8
    for (int r = 0; r < PH; ++r) {
#pragma GCC unroll 8
      for (int s = 0; s < r; ++s) rest[r] -= row[(i * PH + s) * PH + r] * rest[s];
      rest[r] *= pivots[i * PH + r];
      whitened[i * PH + r] = rest[r];
      *square += rest[r] * rest[r];
    }
  }

  static void run(const Candidates& candidates) {
    const Interleaved self{candidates};
    LogProduct<vec> determinant;
    vec square = broadcast(0.0);
    for (int i = 0; i < panel_count(candidates.n, PH); ++i) {
      if (gram_first) self.fill(i);
      for (int j = 0; j < i; ++j) self.below(i, j);
      self.diagonal_square(i, determinant);
      self.solve(i, &square);
    }
    as_vec(candidates.log_likelihood) = -0.5 * (square + determinant.value());
  }
};

template <class Sim>
struct Single {
  static constexpr int R = 3;  // panels in a tile: with W columns, 3 W sums in registers
  using word = typename Sim::word;

  // Panels [begin, end) of the Gram matrix.
  static EBO_INLINE void fill(const Candidates& c, int begin, int end) {
    const auto* varying = static_cast<const word*>(c.varying);
    const auto* fixed = static_cast<const word*>(c.fixed);
    const size_t pairs = pair_count(c.n, W);
    const double scale = c.scale[0], scaled_offset = scale * c.offset[0];
    for (size_t q = panel_start(begin, W); q < panel_start(end, W); q += W) {
      vec element = scale * as_vec(c.total + q) + scaled_offset;
      for (int w = 0; w < c.words; ++w) {
        const size_t at = w * pairs + q;
        element -= scale * Sim::weight(as_vec(varying + at), as_vec(fixed + at));
      }
      as_vec(c.factor + q) = element;
    }
  }

  // The same of one lane of interleaved candidates, whose panels have other heights: those that
  // begin in these panels. (R panels of W rows are a whole number of panels of PH.)
  static void fill_from_lane(const Candidates& c, int begin, int end) {
    constexpr int PH = Interleaved<Sim>::PH;
    static_assert(R * W % PH == 0 && PH * PH % W == 0);
    const auto* varying = static_cast<const word*>(c.varying) + c.lane;
    const auto* fixed = static_cast<const word*>(c.fixed);
    const size_t pairs = pair_count(c.n, PH);
    const double scale = c.scale[c.lane], scaled_offset = scale * c.offset[c.lane];
    for (int p = begin * W / PH; p * PH < end * W && p * PH < c.n; ++p) {
      size_t q = panel_start(p, PH);
      for (int k = 0, r = 0; k < (p + 1) * PH; q += W) {
        vec element = scale * as_vec(c.total + q) + scaled_offset;
        for (int w = 0; w < c.words; ++w) {
          const size_t at = w * pairs + q;
          typename Sim::pack lane;
          for (int i = 0; i < W; ++i) lane[i] = varying[(at + i) * W];
          element -= scale * Sim::weight(lane, as_vec(fixed + at));
        }
        for (int i = 0; i < W; ++i) {
          const int row = p * PH + r;
          if (k < row && row < end * W)
            c.factor[panel_start(row / W, W) + size_t(k) * W + row % W] = element[i];
          if (++r == PH) r = 0, ++k;
        }
      }
    }
    for (int row = panel_count(c.n, PH) * PH; row < end * W; ++row)  // padding
      for (int k = 0; k < row; ++k)
        c.factor[panel_start(row / W, W) + size_t(k) * W + row % W] = 0.0;
  }

  // Columns of panel j in `Rows` panels, starting with panel i > j.
  template <int Rows>
  static void below(double* factor, const double* pivots, int i, int j) {
    vec* row[Rows];
    for (int r = 0; r < Rows; ++r)
      row[r] = reinterpret_cast<vec*>(factor + panel_start(i + r, W));
    const double* other = factor + panel_start(j, W);
    const int column = j * W;
    vec sum[Rows][W];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < W; ++t) sum[r][t] = row[r][column + t];
    const double* square = other + column * W;
#pragma GCC unroll 2
    for (int k = 0; k < column; ++k, other += W)
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < W; ++t) sum[r][t] -= row[r][k] * other[t];
#pragma GCC unroll 8
    for (int t = 0; t < W; ++t)
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        vec x = sum[r][t];
#pragma GCC unroll 8
        for (int s = 0; s < t; ++s) x -= sum[r][s] * square[s * W + t];
        sum[r][t] = x * pivots[column + t];
        row[r][column + t] = sum[r][t];
      }
  }

  static void diagonal_square(double* factor, double* pivots, LogProduct<double>& determinant,
                              int n, int i) {
    vec* row = reinterpret_cast<vec*>(factor + panel_start(i, W));
    const int column = i * W;
    vec sum[W];
#pragma GCC unroll 8
    for (int t = 0; t < W; ++t) sum[t] = row[column + t];
    for (int k = 0; k < column; ++k)
#pragma GCC unroll 8
      for (int t = 0; t < W; ++t) sum[t] -= row[k] * row[k][t];
#pragma GCC unroll 8
    for (int t = 0; t < W; ++t) {
      const double pivot = sum[t][t];
      const double inverse = 1.0 / std::sqrt(pivot);
      pivots[column + t] = inverse;
      if (column + t < n) determinant.multiply(pivot);
      sum[t] *= inverse;
      row[column + t] = sum[t];
#pragma GCC unroll 8
      for (int s = t + 1; s < W; ++s) sum[s] -= sum[t] * sum[t][s];
    }
  }

  static void run(const Candidates& c) {
    const int panels = panel_count(c.n, W);
    const double diagonal = 1.0 + c.noise[c.lane < 0 ? 0 : c.lane];
    LogProduct<double> determinant;
    double square = 0.0;
    for (int i = 0; i < panels; i += R) {
      const int rows = panels - i < R ? panels - i : R;
      c.lane < 0 ? fill(c, i, i + rows) : fill_from_lane(c, i, i + rows);
      for (int r = i; r < i + rows; ++r)
        for (int t = 0; t < W; ++t)
          c.factor[panel_start(r, W) + size_t(r * W + t) * W + t] = diagonal;
      if (rows == R)
        for (int j = 0; j < i; ++j) below<R>(c.factor, c.pivots, i, j);
      else
        for (int r = i; r < i + rows; ++r)
          for (int j = 0; j < i; ++j) below<1>(c.factor, c.pivots, r, j);
      for (int j = i; j < i + rows; ++j) {
        diagonal_square(c.factor, c.pivots, determinant, c.n, j);
        for (int r = j + 1; r < i + rows; ++r) below<1>(c.factor, c.pivots, r, j);
      }
      for (int r = i; r < i + rows; ++r) solve(c, r, &square);
    }
    c.log_likelihood[0] = -0.5 * (square + determinant.value());
  }

  static EBO_INLINE void solve(const Candidates& c, int i, double* square) {
    const vec* row = reinterpret_cast<const vec*>(c.factor + panel_start(i, W));
    vec rest = broadcast(0.0);
    for (int r = 0; r < W && i * W + r < c.n; ++r) rest[r] = c.y[i * W + r];
    for (int k = 0; k < i * W; ++k) rest -= row[k] * c.whitened[k];
    for (int r = 0; r < W; ++r) {
      const double x = rest[r] * c.pivots[i * W + r];
      c.whitened[i * W + r] = x;
      *square += x * x;
      rest -= row[i * W + r] * x;
    }
  }
};

}  // namespace ebo::EBO_ISA
