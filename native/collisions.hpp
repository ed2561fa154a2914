// On how many layers two points share the cell, for many pairs of points.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace ebo {
namespace EBO_ISA {

// Cells a [dim][point][layer] and b, of a group of dims dimensions; counts [point of a][point of b].
// Points share a layer's cell where they agree in every dimension. Plain loops over some layers at a
// time, one dimension after the other: the compiler makes vectors of them.
inline void count_collisions(const uint16_t* a, const uint16_t* b, int32_t* counts, size_t dims,
                             size_t rows, size_t columns, size_t layers) {
  constexpr size_t SOME = 128;
  uint16_t differ[SOME];
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      uint16_t count = 0;  // layers are fewer than 2^16
      for (size_t begin = 0; begin < layers; begin += SOME) {
        const size_t some = layers - begin < SOME ? layers - begin : SOME;
        const uint16_t* first = a + i * layers + begin;
        const uint16_t* second = b + j * layers + begin;
        for (size_t l = 0; l < some; ++l) differ[l] = first[l] ^ second[l];
        for (size_t d = 1; d < dims; ++d) {
          first += rows * layers;
          second += columns * layers;
          for (size_t l = 0; l < some; ++l) differ[l] |= first[l] ^ second[l];
        }
        for (size_t l = 0; l < some; ++l) count += differ[l] == 0;
      }
      counts[i * columns + j] = count;
    }
  }
}

}  // namespace EBO_ISA
}  // namespace ebo
