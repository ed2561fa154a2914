// On how many layers a point shares the cell with each of many points.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace ebo {
namespace EBO_ISA {

// Points share a layer's cell where they agree in every dimension. Plain loops over some layers at a
// time, one dimension after the other: the compiler makes vectors of them.
inline void count_collisions(Cells a, Cells b, size_t dims, size_t layers, size_t points,
                             int32_t* counts) {
  constexpr size_t SOME = 128;
  uint16_t differ[SOME];
  for (size_t j = 0; j < points; ++j) {
    uint16_t count = 0;  // layers are fewer than 2^16
    for (size_t begin = 0; begin < layers; begin += SOME) {
      const size_t some = layers - begin < SOME ? layers - begin : SOME;
      const uint16_t* first = a.codes + begin;
      const uint16_t* second = b.codes + j * layers + begin;
      for (size_t l = 0; l < some; ++l) differ[l] = first[l] ^ second[l];
      for (size_t d = 1; d < dims; ++d) {
        first += a.stride;
        second += b.stride;
        for (size_t l = 0; l < some; ++l) differ[l] |= first[l] ^ second[l];
      }
      for (size_t l = 0; l < some; ++l) count += differ[l] == 0;
    }
    counts[j] = count;
  }
}

}  // namespace EBO_ISA
}  // namespace ebo
