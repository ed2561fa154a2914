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

// Log of a long product of pivots: logarithms are dear, so only the product's exponent grows,
// and the logarithm is taken once of what is left. Of a pivot that is not positive it makes any
// number; L^-1 y has no finite one then, so that nobody takes it for a likelihood.
template <class V>
class LogProduct {
 public:
  EBO_INLINE void multiply(V pivot) {
    const Integers bits = Integers(product_ * pivot);
    exponent_ += (bits >> digits) - bias;
    product_ = V((bits & ((whole(1) << digits) - 1)) | bias << digits);
  }
  EBO_INLINE double value(int lane) const {
    return std::log(double(product_[lane])) + M_LN2 * double(exponent_[lane]);
  }

 private:
  using number = typename Parts<V>::number;
  using whole = std::conditional_t<sizeof(number) == 4, int32_t, int64_t>;
  typedef whole Integers __attribute__((vector_size(sizeof(V))));
  static constexpr int digits = sizeof(number) == 4 ? 23 : 52;
  static constexpr whole bias = sizeof(number) == 4 ? 127 : 1023;
  V product_ = V{} + 1;
  Integers exponent_{};
};

// V is a vector of doubles or floats.
template <class Sim, class V>
struct Interleaved {
#if EBO_LANES == 8
  static constexpr int PH = 4, CT = 4;  // 16 sums in 32 registers
#else
  static constexpr int PH = 6, CT = 2;  // 12 sums in 16 registers
#endif
  static constexpr int lanes = Parts<V>::count;
  using number = typename Parts<V>::number;
  using word = typename Sim::word;

  // What each candidate has of its own.
  static V of_lanes(const double* values) {
    V out;
    for (int i = 0; i < lanes; ++i) out[i] = number(values[candidate_of<V>(i)]);
    return out;
  }

  const Candidates& c;
  const size_t pairs = pair_count(c.n, PH);
  V* const factor = reinterpret_cast<V*>(c.factor);
  V* const pivots = reinterpret_cast<V*>(c.pivots);
  V* const whitened = reinterpret_cast<V*>(c.whitened);
  const V scale = of_lanes(c.scale), offset = of_lanes(c.offset);
  const V diagonal = of_lanes(c.noise) + number(1);

  // Pair q of the Gram matrices. Weights of bits are whole numbers, so that only the product with
  // the scale rounds: however a state was reached, its likelihood is the same.
  EBO_INLINE V gram(size_t q) const {
    const auto* total = static_cast<const typename Sim::number*>(c.total);
    const auto* varying = static_cast<const word*>(c.varying);
    const auto* fixed = static_cast<const word*>(c.fixed);
    V weight = offset + number(total[q]);
    int w = 0;
    do {  // there is one word at least, and most often no other
      weight -= Sim::template weights<V>(varying + q * c.stride, fixed[q]);
      q += pairs;
    } while (++w < c.words);
    return scale * weight;
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
  EBO_INLINE void unexplained(V (&sum)[PH][CT], int i, int j, int first) const {
    const V* row = factor + panel_start(i, PH);
    const V* other = factor + panel_start(j, PH) + first;
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
      for (int t = 0; t < CT; ++t) sum[first + t][t] = diagonal;
#pragma GCC unroll 2
    for (int k = 0; k < column; ++k, row += PH, other += PH)
#pragma GCC unroll 8
      for (int r = 0; r < PH; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < CT; ++t) sum[r][t] -= row[r] * other[t];
  }

  // Columns of panel j in panel i > j.
  void below(int i, int j) const {
    V* row = factor + panel_start(i, PH);
    const V* square = factor + panel_start(j, PH) + j * PH * PH;  // panel j in itself
#pragma GCC unroll 8
    for (int first = 0; first < PH; first += CT) {
      const int column = j * PH + first;
      V sum[PH][CT];
      unexplained<false>(sum, i, j, first);
#pragma GCC unroll 8
      for (int t = 0; t < CT; ++t)
#pragma GCC unroll 8
        for (int r = 0; r < PH; ++r) {
          V x = sum[r][t];
#pragma GCC unroll 8
          for (int s = 0; s < t; ++s) x -= sum[r][s] * square[(first + s) * PH + first + t];
          sum[r][t] = x * pivots[column + t];
          row[(column + t) * PH + r] = sum[r][t];
        }
    }
  }

  // Columns of panel i in itself.
  void diagonal_square(int i, LogProduct<V>& determinant) const {
    V* row = factor + panel_start(i, PH);
#pragma GCC unroll 8
    for (int first = 0; first < PH; first += CT) {
      const int column = i * PH + first;
      V sum[PH][CT];
      unexplained<true>(sum, i, i, first);
#pragma GCC unroll 8
      for (int t = 0; t < CT; ++t) {
        const V pivot = sum[first + t][t];
        const V inverse = number(1) / square_root(pivot);
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
  EBO_INLINE void solve(int i, V* square) const {
    const V* row = factor + panel_start(i, PH);
    V rest[PH];
#pragma GCC unroll 8
    for (int r = 0; r < PH; ++r) rest[r] = V{} + number(i * PH + r < c.n ? c.y[i * PH + r] : 0.0);
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
    LogProduct<V> determinant;
    V square{};
    for (int i = 0; i < panel_count(candidates.n, PH); ++i) {
      if (gram_first) self.fill(i);
      for (int j = 0; j < i; ++j) self.below(i, j);
      self.diagonal_square(i, determinant);
      self.solve(i, &square);
    }
    for (int i = 0; i < lanes; ++i)
      candidates.log_likelihood[candidate_of<V>(i)] =
          -0.5 * (double(square[i]) + determinant.value(i));
  }
};

template <class Sim>
struct Single {
  static constexpr int R = 3;  // panels in a tile: with W columns, 3 W sums in registers
  using word = typename Sim::word;
  typedef double lone __attribute__((vector_size(8)));

  // Panels [begin, end) of the Gram matrix.
  static EBO_INLINE void fill(const Candidates& c, int begin, int end) {
    const auto* varying = static_cast<const word*>(c.varying);
    const auto* fixed = static_cast<const word*>(c.fixed);
    const auto* total = static_cast<const typename Sim::number*>(c.total);
    const size_t pairs = pair_count(c.n, W);
    for (size_t q = panel_start(begin, W); q < panel_start(end, W); q += W) {
      vec weight = load(total + q) + c.offset[0];
      for (int w = 0; w < c.words; ++w) {
        const size_t at = w * pairs + q;
        weight -= Sim::weight(as_vec(varying + at), as_vec(fixed + at));
      }
      as_vec(c.factor + q) = c.scale[0] * weight;
    }
  }

  // The same of one lane of interleaved candidates, whose panels have other heights: those that
  // begin in these panels. (R panels of W rows are a whole number of panels of PH.)
  static void fill_from_lane(const Candidates& c, int begin, int end) {
    constexpr int PH = Interleaved<Sim, vec>::PH;
    static_assert(R * W % PH == 0 && PH * PH % W == 0);
    const auto* varying = static_cast<const word*>(c.varying);
    const auto* fixed = static_cast<const word*>(c.fixed);
    const auto* total = static_cast<const typename Sim::number*>(c.total);
    const size_t pairs = pair_count(c.n, PH);
    for (int p = begin * W / PH; p * PH < end * W && p * PH < c.n; ++p) {
      size_t q = panel_start(p, PH);
      for (int k = 0, r = 0; k < (p + 1) * PH; q += W) {
        vec element = load(total + q) + c.offset[0];
        for (int w = 0; w < c.words; ++w) {
          const size_t at = w * pairs + q;
          typename Sim::pack lane;
          for (int i = 0; i < W; ++i) lane[i] = varying[(at + i) * c.stride];
          element -= Sim::weight(lane, as_vec(fixed + at));
        }
        element *= c.scale[0];
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

  static void diagonal_square(double* factor, double* pivots, LogProduct<lone>& determinant,
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
      if (column + t < n) determinant.multiply(lone{pivot});
      sum[t] *= inverse;
      row[column + t] = sum[t];
#pragma GCC unroll 8
      for (int s = t + 1; s < W; ++s) sum[s] -= sum[t] * sum[t][s];
    }
  }

  static constexpr int LONG = 512;  // rows, from which on a few more take a while

  static void run(const Candidates& c) {
    const int panels = panel_count(c.n, W);
    const double diagonal = 1.0 + c.noise[0];
    LogProduct<lone> determinant;
    double square = 0.0;
    for (int i = 0; i < panels; i += R) {
      const int rows = panels - i < R ? panels - i : R;
      if (i * W >= LONG) c.pause->look();
      c.stride == 1 ? fill(c, i, i + rows) : fill_from_lane(c, i, i + rows);
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
    c.log_likelihood[0] = -0.5 * (square + determinant.value(0));
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
