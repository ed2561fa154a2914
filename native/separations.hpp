// How far all pairs of a block are apart in one dimension, for several numbers of
// cuts side by side, and the weight of what groups of dimensions keep together.
#pragma once
#include "kernels.hpp"
#include "likelihood.hpp"
#include "simd.hpp"

namespace ebo::EBO_ISA {

template <class Sim>
void add_weight(size_t pairs, int words, const void* a, const void* b, const void* base,
                void* out) {
  using word = typename Sim::word;
  using number = typename Sim::number;
  const auto* p = static_cast<const word*>(a);
  const auto* q = static_cast<const word*>(b);
  for (size_t i = 0; i < pairs; i += W) {
    vec sum = load(static_cast<const number*>(base) + i);
    for (int w = 0; w < words; ++w)
      sum += Sim::weight(as_vec(p + w * pairs + i), as_vec(q + w * pairs + i));
    store(sum, static_cast<number*>(out) + i);
  }
}

template <class Sim>
void settle(size_t pairs, int words, int lanes, const void* rest, const void* apart,
            const void* without, double offset, void* group, void* total) {
  using word = typename Sim::word;
  using number = typename Sim::number;
  const auto* r = static_cast<const word*>(rest);
  const auto* s = static_cast<const word*>(apart);
  auto* g = static_cast<word*>(group);
  const auto* before = static_cast<const number*>(without);
  auto* sum = static_cast<number*>(total);
  for (int w = 0; w < words; ++w, before = sum, offset = 0.0)
    for (size_t q = 0; q < pairs; q += W, r += W, s += W) {
      store(load(before + q) + offset - Sim::weight(as_vec(r), as_vec(s)), sum + q);
      const typename Sim::pack kept = Sim::remove(as_vec(r), as_vec(s));
      for (int i = 0; i < W; ++i, g += lanes) *g = kept[i];
    }
}

// Tile coding: k cuts at (u + i) / k, so that p = k t has floor(p) of them below it, and one
// more where u <= p - floor(p). Mondrian grid: cuts at the first k uniforms. Layers are padded
// to whole words with uniforms that no coordinate reaches.
void cells(Family family, int n, int layers, const double* t, const double* uniforms,
           const double* cuts, uint8_t* out) {
  int most = 0;
  for (int l = 0; l < layers; ++l) most = cuts[l] > most ? int(cuts[l]) : most;
  for (int i = 0; i < n; ++i, out += layers)
    for (int l = 0; l < layers; l += W) {
      const vec k = as_vec(cuts + l);
      ivec cell{};
      if (family == Family::tile_coding) {
        const vec position = k * t[i];
        cell = __builtin_convertvector(position, ivec);
        const vec part = position - __builtin_convertvector(cell, vec);
        // A comparison is -1 where it holds. Without cuts there is one cell.
        cell -= ivec(as_vec(uniforms + l) <= part) & ivec(k > 0.0);
      } else {
        for (int c = 0; c < most; ++c)
          cell -= ivec(as_vec(uniforms + size_t(c) * layers + l) <= t[i]) & ivec(double(c) < k);
      }
      const bytes narrow = __builtin_convertvector(cell, bytes);
      __builtin_memcpy(out + l, &narrow, W);
    }
}

// out := what `kept` keeps together and `apart` does not separate
template <class Sim>
void remove(size_t flat, const void* kept, const void* apart, void* out) {
  using word = typename Sim::word;
  const auto* a = static_cast<const word*>(kept);
  const auto* b = static_cast<const word*>(apart);
  auto* c = static_cast<word*>(out);
  for (size_t i = 0; i < flat; i += W)
    *reinterpret_cast<typename Sim::pack*>(c + i) = Sim::remove(as_vec(a + i), as_vec(b + i));
}

void separations_by_cells(Shape shape, int n, int words, int layers, const uint8_t* cells,
                          uint64_t* out) {
  const size_t pairs = pair_count(n, shape.height);
  const size_t row = size_t(64) * words, set = n * row;
  for (int w = 0; w < words; ++w) {
    const uint64_t all = layer_mask(layers, w);
    uint64_t* to = out + w * pairs * shape.lanes;
    uint64_t* const end = to + pairs * shape.lanes;
    for (int first = 0; first < n; first += shape.height)
      for (int k = 0; k < first + shape.height; ++k)
        for (int i = first; i < first + shape.height; ++i) {
          if (i < n && k < n) {
            const uint8_t* a = cells + i * row + 64 * w;
            const uint8_t* b = cells + k * row + 64 * w;
            for (int lane = 0; lane < shape.lanes; ++lane)
              to[lane] = all & different_bytes(a + lane * set, b + lane * set);
          } else {
            for (int lane = 0; lane < shape.lanes; ++lane) to[lane] = all;
          }
          to += shape.lanes;
        }
    while (to < end) *to++ = all;
  }
}

// Tile coding with one number of cuts for all layers: all cells of a point are `whole` or, on
// the layers in `mask`, one more. Of `lanes` numbers of cuts side by side, or of one.
struct Tiles {
  int lanes;
  int64_t* wholes;  // [row][lane]
  uint64_t* masks;

  // Word w of rows of points, and of rows of padding, whose whole nobody has as a neighbour.
  void fill(int n, int rows, int layers, const double* t, const double* uniforms, const int* cuts) {
    for (int lane = 0; lane < lanes; lane += W) {
      vec k;
      for (int i = 0; i < W; ++i) k[i] = cuts[lanes == 1 ? 0 : lane + i];
      for (int row = 0; row < rows; ++row) {
        ivec whole = ivec{} + (INT64_MIN / 2 + 4 * row);
        uvec mask{};
        if (row < n) {
          const vec position = k * t[row];
          whole = __builtin_convertvector(position, ivec);
          const vec part = position - __builtin_convertvector(whole, vec);
          uvec bit = broadcast(uint64_t(1));
#pragma GCC unroll 8
          for (int l = 0; l < layers; ++l, bit += bit)
            mask = uniforms[l] <= part ? mask | bit : mask;
          mask = k > 0.0 ? mask : uvec{};
        }
        const size_t at = size_t(row) * lanes + lane;
        if (lanes == 1) {
          wholes[at] = whole[0];
          masks[at] = mask[0];
        } else {
          *reinterpret_cast<ivec*>(wholes + at) = whole;
          *reinterpret_cast<uvec*>(masks + at) = mask;
        }
      }
    }
  }

  // Two points share the cell where their masks agree, if their wholes are equal; where one mask
  // makes up for it, if these are neighbours; and else nowhere. Vectors run along the lanes of
  // Rows rows each, or along the rows, if there is one lane only: then one vector has them all.
  template <bool single, int Rows>
  void separate(int n, uint64_t all, int lane, uint64_t* out) const {
    constexpr int height = single ? W : Rows;
    const int step = single ? W : lanes;
    out += lane;
    for (int first = 0; first < n; first += height) {
      ivec whole[Rows];
      uvec mask[Rows], missing[Rows];
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const size_t at = size_t(first + r) * lanes + lane;
        whole[r] = as_vec(wholes + at);
        mask[r] = as_vec(masks + at);
        missing[r] = all & ~mask[r];
      }
      for (int k = 0; k < first + height; ++k) {
        const size_t at = size_t(k) * lanes + lane;
        const ivec other = single ? ivec{} + wholes[at] : as_vec(wholes + at);
        const uvec mask_k = single ? broadcast(masks[at]) : as_vec(masks + at);
        const uvec missing_k = all & ~mask_k;
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r, out += step) {
          uvec apart = broadcast(all);
          apart = whole[r] == other ? mask[r] ^ mask_k : apart;
          apart = whole[r] == other + 1 ? mask[r] | missing_k : apart;
          apart = whole[r] == other - 1 ? missing[r] | mask_k : apart;
          *reinterpret_cast<uvec*>(out) = apart;
        }
      }
    }
  }
};

void separations_by_tiles(Shape shape, int n, int words, int layers, const double* t,
                          const double* uniforms, const int* cuts, int64_t* workspace,
                          uint64_t* out) {
  const size_t pairs = pair_count(n, shape.height);
  const int rows = panel_count(n, shape.height) * shape.height;
  Tiles tiles{shape.lanes, workspace,
              reinterpret_cast<uint64_t*>(workspace + size_t(rows) * shape.lanes)};
  for (int w = 0; w < words; ++w, out += pairs * shape.lanes) {
    tiles.fill(n, rows, layers - 64 * w < 64 ? layers - 64 * w : 64, t, uniforms + 64 * w, cuts);
    const uint64_t all = layer_mask(layers, w);
    if (shape.lanes == 1)
      tiles.separate<true, 1>(n, all, 0, out);
    else
      for (int lane = 0; lane < shape.lanes; lane += W)
        tiles.separate<false, Interleaved<Bits, vec>::PH>(n, all, lane, out);
    const size_t used = panel_start(panel_count(n, shape.height), shape.height);
    for (size_t i = used * shape.lanes; i < pairs * shape.lanes; ++i) out[i] = all;
  }
}

// x^k for every lane's own k < 256, by repeated squaring; bit b of k is in digit[b].
EBO_INLINE vec power(vec x, const uvec (&digit)[8], int digits) {
  vec result = broadcast(1.0);
  for (int b = 0; b < digits; ++b) {
    result = digit[b] ? result * x : result;
    x *= x;
  }
  return result;
}

void separations_by_limit(Family family, Shape shape, size_t pairs, const double* base,
                          const int* cuts, double* out) {
  const bool single = shape.lanes == 1;
  for (int lane = 0; lane < shape.lanes; lane += W) {
    vec k;
    uvec digit[8];
    int digits = 0;
    for (int i = 0; i < W; ++i) {
      const int count = cuts[single ? 0 : lane + i];
      k[i] = count;
      for (int b = 0; b < 8; ++b) {
        digit[b][i] = count >> b & 1 ? ~uint64_t(0) : 0;
        if (count >> b && b >= digits) digits = b + 1;
      }
    }
    const size_t step = single ? W : 1;
    double* to = out + lane;
    for (size_t q = 0; q < pairs; q += step, to += single ? W : shape.lanes) {
      const vec x = single ? as_vec(base + q) : broadcast(base[q]);
      vec apart;
      if (family == Family::hat) {
        apart = k * x;
        apart = apart > 1.0 ? broadcast(1.0) : apart;
      } else {
        apart = 1.0 - power(x, digit, digits);
      }
      as_vec(to) = x < 0.0 ? broadcast(1.0) : apart;
    }
  }
}

}  // namespace ebo::EBO_ISA
