// On how many layers two points share the cell, for many pairs of points.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebo {

// Cells a [dim][point][layer] and b, of a group of dims dimensions; counts [point of a][point of b].
// Points share a layer's cell where they agree in every dimension. Plain loops: the compiler makes
// vectors of them.
inline void count_collisions(const uint16_t* a, const uint16_t* b, int32_t* counts, size_t dims,
                             size_t rows, size_t columns, size_t layers) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const uint16_t* first = a + i * layers;
      const uint16_t* second = b + j * layers;
      uint16_t count = 0;  // layers are fewer than 2^16
      if (dims == 1) {
        for (size_t l = 0; l < layers; ++l) count += first[l] == second[l];
      } else {
        for (size_t l = 0; l < layers; ++l) {
          uint16_t differ = 0;
          for (size_t d = 0; d < dims; ++d)
            differ |= first[d * rows * layers + l] ^ second[d * columns * layers + l];
          count += differ == 0;
        }
      }
      counts[i * columns + j] = count;
    }
  }
}

}  // namespace ebo
