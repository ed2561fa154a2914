// The hot loops behind one table of functions, so that the rest of the core is
// compiled once and does not know for which instruction set they were built.
//
// Notation. A block has n points. Its pairs of points are numbered panel by
// panel: a panel is `height` consecutive rows, inside it column k comes before
// column k + 1 and, inside a column, row after row, so that the factorisation
// reads memory in one direction only. Every pair of the lower triangle has its
// place, and the few of the upper one that fall into the diagonal squares.
//
// What is stored of a pair is how far it is apart, its *separation*: the layers,
// as bits, on which two points do not share the cell (finite layers), or one
// minus their similarity (a limit kernel). A group of dimensions keeps what none
// of its dimensions separates: AND NOT on bits, a product on limits. The weight
// of what is kept is the number of bits, or the product itself. Bits take `words`
// machine words that lie in planes: word w of pair q stands at w * pairs + q.
#pragma once
#include <cstddef>
#include <cstdint>

#include "pause.hpp"

namespace ebo {

// How the factorisation of a block is laid out in memory.
struct Shape {
  int lanes;   // candidates side by side: 1, or whole vectors
  int height;  // rows of a panel
};

inline int panel_count(int n, int height) { return (n + height - 1) / height; }

inline size_t panel_start(int panel, int height) {
  return size_t(height) * height * panel * (panel + 1) / 2;
}

// Rounded up, so that whole vectors can run over all pairs.
inline size_t pair_count(int n, int height) {
  return (panel_start(panel_count(n, height), height) + 7) / 8 * 8;
}

// `lanes` candidate Gram matrices, given by what they have in common and where they differ:
//   K = scale * (total + offset - weight(varying AND fixed)) off the diagonal, 1 on it,
// the noise variance, and the observations y. Their log-likelihoods leave out -n/2 log 2 pi.
struct Candidates {
  int n;
  int words;
  int stride;              // of varying, from one pair to the next; 1 if it has one lane only
  const void* total;       // [pair]: floats for bits, doubles for limits
  const void* varying;     // [word][pair][lane]
  const void* fixed;       // [word][pair]
  const double* offset;    // [lane]
  const double* scale;     // [lane]
  const double* noise;     // [lane]
  const double* y;         // [n]
  double* factor;          // workspace, pairs * lanes; of floats in single precision
  double* pivots;          // workspace, padded n * lanes: reciprocal square roots
  double* whitened;        // workspace, padded n * lanes: L^-1 y
  double* log_likelihood;  // [lane]
  Pause* pause;
};

enum class Family { tile_coding, mondrian_grid, hat, laplace };
enum Similarity { bits = 0, limit = 1 };

// The layers that word w has, of `layers` in all.
inline uint64_t layer_mask(int layers, int w) {
  const int count = layers - 64 * w;
  return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
}

// Points for a limit kernel, in single precision.
struct LimitPoints {
  bool laplace;                // or hat
  const float* cuts;           // of each dimension: the rates of a smooth kernel
  const uint8_t* categorical;  // of each: similar only where equal
  const float* T;              // [dim][column]
  size_t columns, stride;      // used, and from one dimension to the next
};

// A triangle to be multiplied with many points, in single precision. Above its diagonal are zeros.
struct Triangle {
  size_t n, stride;      // rows and columns, and from one row to the next
  const float* inverse;  // R^-1 [n][stride]
  const float* w;        // R^-1 y [n]
  const float* base;     // [n], the same for all points
  size_t points, lanes;  // and these rounded up to whole vectors of any instruction set
  const float* kappa;    // [point][n]
};

// Codes of cells [dim][point][layer], from some point on.
struct Cells {
  const uint16_t* codes;
  size_t stride;  // from one dimension to the next
};

struct Kernels {
  const char* name;
  Shape interleaved;  // one lane per candidate: small blocks
  Shape single;       // one candidate, vectors along the rows: large blocks

  // [similarity][interleaved, single]; the latter also takes one lane of the former's layout.
  void (*log_likelihood[2][2])(const Candidates&);
  // Of bits in single precision, interleaved: as many lanes, or twice as many.
  void (*rough_log_likelihood[2])(const Candidates&);

  // out[pair] = base[pair] + weight(a AND b); [similarity]
  void (*add_weight[2])(size_t pairs, int words, const void* a, const void* b, const void* base,
                        void* out);

  // out := what `kept` keeps together and `apart` does not separate; [similarity]
  void (*remove[2])(size_t flat, const void* kept, const void* apart, void* out);

  // A dimension that sets apart becomes one of a group, which is one lane of a chunk:
  //   total = without + offset - weight(rest AND apart), group = rest without apart.
  void (*settle[2])(size_t pairs, int words, int lanes, const void* rest, const void* apart,
                    const void* without, double offset, void* group, void* total);

  // Cells [n][layer] of coordinates t [n] in one dimension, with cuts [layer]; here `layers` is
  // padded to whole words.
  void (*cells)(Family family, int n, int layers, const double* t, const double* uniforms,
                const double* cuts, uint8_t* out);

  // Separations of all pairs by `lanes` sets of cells side by side (one, or whole vectors):
  // cells [lane][n][64 * words] bytes -> out [word][pair][lane].
  void (*separations_by_cells)(Shape shape, int n, int words, int layers, const uint8_t* cells,
                               uint64_t* out);

  // The same for tile coding with cuts[lane] on all layers, without the detour over cells;
  // workspace: 2 * padded n * lanes.
  void (*separations_by_tiles)(Shape shape, int n, int words, int layers, const double* t,
                               const double* uniforms, const int* cuts, int64_t* workspace,
                               uint64_t* out);

  // Separations of all pairs by a limit kernel with cuts[lane] < 256. `base` is |x - x'| (hat)
  // or exp(-|x - x'|) (Laplace), or negative for a pair that is always apart.
  void (*separations_by_limit)(Family family, Shape shape, size_t pairs, const double* base,
                               const int* cuts, double* out);

  // row[column] += scale times the similarity of a point p [dim] in the dimensions of a group;
  // work: as long as the row.
  void (*add_similarity)(const LimitPoints& points, const float* p, const int64_t* group,
                         size_t dims, float scale, float* work, float* row);

  // square[column] += the squared distance of a point p [dim] in some dimensions, and
  // row[column] = scale times the smooth similarity at that distance.
  void (*add_square_distance)(const LimitPoints& points, const float* p, const int64_t* group,
                              size_t dims, float* square);
  void (*matern)(const float* square, size_t columns, float scale, float* row);

  // v = base + inverse kappa, [n][lane], and of each point v . w and v . v, [lane];
  // work: 48 n.
  void (*whiten)(const Triangle& triangle, float* work, float* v, float* mean, float* square);

  // Layers on which the first point of a shares the cell with each of some points of b, in all of a
  // group's dimensions; counts [point of b].
  void (*count_collisions)(Cells a, Cells b, size_t dims, size_t layers, size_t points,
                           int32_t* counts);
};

extern const Kernels kernels_baseline;
#ifdef EBO_X86
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

}  // namespace ebo
