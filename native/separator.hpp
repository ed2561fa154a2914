// Which pairs of a block's points a dimension sets apart, for several numbers of
// cuts at once. Here the kernel families differ; nothing after it knows them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "buffer.hpp"
#include "kernels.hpp"
#include "tiling.hpp"

namespace ebo {

class Separator {
 public:
  // t is [n][dims].
  Separator(const Kernels& kernels, const Tiling& tiling, Shape shape, int n, const double* t,
            Pause& pause)
      : kernels_(kernels),
        tiling_(tiling),
        shape_(shape),
        n_(n),
        row_(size_t(tiling.padded_layers())),
        tiles_(2 * size_t(panel_count(n, shape.height)) * shape.height * shape.lanes),
        cells_(n * row_ * shape.lanes, 0) {
    for (int d = 0; d < tiling.dims; ++d) {
      std::vector<double> column(n);
      for (int i = 0; i < n; ++i) column[i] = t[size_t(i) * tiling.dims + d];
      coordinate_.push_back(std::move(column));
      if (tiling.is_limit()) base_.push_back(base(d, pause));
    }
  }

  // By at most `lanes` candidates of dimension d, each with `per_candidate` cuts: one for all
  // layers, or one for each. Fills [word][pair][lane].
  void separate(int d, const int* cuts, int count, int per_candidate, uint64_t* out) {
    if (tiling_.is_limit() || (tiling_.family == Family::tile_coding && per_candidate == 1 &&
                               !tiling_.categorical[d])) {
      int of_lane[8] = {};
      std::copy_n(cuts, count, of_lane);
      if (tiling_.is_limit())
        kernels_.separations_by_limit(tiling_.family, shape_, pair_count(n_, shape_.height),
                                      base_[d].data(), of_lane, reinterpret_cast<double*>(out));
      else
        kernels_.separations_by_tiles(shape_, n_, tiling_.words(), tiling_.layers,
                                      coordinate_[d].data(), tiling_.uniforms_of(d), of_lane,
                                      tiles_.data(), out);
      return;
    }
    for (int c = 0; c < count; ++c, cuts += per_candidate) {
      uint8_t* cells = cells_.data() + c * n_ * row_;
      if (tiling_.categorical[d]) {
        fill_categories(d, cells);
      } else {
        Buffer<double> of_layer(row_, per_candidate == 1 ? cuts[0] : 0.0);
        if (per_candidate > 1) std::copy_n(cuts, per_candidate, of_layer.data());
        kernels_.cells(tiling_.family, n_, int(row_), coordinate_[d].data(),
                       tiling_.uniforms_of(d), of_layer.data(), cells);
      }
    }
    kernels_.separations_by_cells(shape_, n_, tiling_.words(), tiling_.layers, cells_.data(), out);
  }

 private:
  // The cell of a category, on every layer, is its rank among those that occur.
  void fill_categories(int d, uint8_t* cells) const {
    std::vector<double> values = coordinate_[d];
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (int i = 0; i < n_; ++i) {
      const auto at = std::lower_bound(values.begin(), values.end(), coordinate_[d][i]);
      std::memset(cells + i * row_, int(at - values.begin()), row_);
    }
  }

  // What `separations_by_limit` starts from, for all pairs.
  Buffer<double> base(int d, Pause& pause) const {
    Buffer<double> out(pair_count(n_, shape_.height), -1.0);  // padding is always apart
    size_t q = 0;
    for (int first = 0; first < n_; first += shape_.height) {
      pause.look();
      for (int k = 0; k < first + shape_.height; ++k)
        for (int i = first; i < first + shape_.height; ++i, ++q) {
          if (i >= n_ || k >= n_) continue;
          const double delta = std::fabs(coordinate_[d][i] - coordinate_[d][k]);
          if (tiling_.categorical[d] && delta > 0.0) continue;
          out[q] = tiling_.family == Family::hat ? delta : std::exp(-delta);
        }
    }
    return out;
  }

  const Kernels& kernels_;
  const Tiling& tiling_;
  const Shape shape_;
  const int n_;
  const size_t row_;                             // bytes of a point's cells
  std::vector<std::vector<double>> coordinate_;  // [dim][n]
  std::vector<Buffer<double>> base_;             // limits: [dim][pair]
  Buffer<int64_t> tiles_;
  Buffer<uint8_t> cells_;  // [lane][n][padded layer]
};

}  // namespace ebo
