// The kernel family and its random numbers.
//
// All randomness of a tiling is in uniforms that are drawn once: another number of
// cuts moves the cuts and does not redraw them, so that likelihoods of different
// cuts are compared on the same noise. Coordinates t run from 0 to 1 in the box.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "kernels.hpp"

namespace ebo {

struct Tiling {
  Family family;
  int dims;
  int layers;    // 1 for the limits in L
  int max_cuts;  // at most 255: a cell is a byte
  std::vector<uint8_t> categorical;
  // Tile coding [dim][padded layer], Mondrian grid [dim][cut][padded layer].
  Buffer<double> uniforms;

  // `values` are the uniforms without padding; the limits have none.
  Tiling(Family family, int dims, int layers, int max_cuts, std::vector<uint8_t> categorical,
         const double* values, size_t count)
      : family(family),
        dims(dims),
        layers(layers),
        max_cuts(max_cuts),
        categorical(std::move(categorical)),
        uniforms(count / layers * padded_layers(), 2.0) {
    double* to = uniforms.data();
    for (size_t i = 0; i < count; i += layers, to += padded_layers())
      std::copy_n(values + i, layers, to);
  }

  bool is_limit() const { return family == Family::hat || family == Family::laplace; }
  Similarity similarity() const { return is_limit() ? limit : bits; }
  int words() const { return (layers + 63) / 64; }
  int padded_layers() const { return 64 * words(); }
  const double* uniforms_of(int dim) const {
    return uniforms.data() + uniforms.size() / dims * dim;
  }
};

}  // namespace ebo
