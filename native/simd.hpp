// Vectors of EBO_LANES doubles or machine words, or of twice as many floats, for one
// instruction set.
//
// Everything lives in a namespace of that instruction set, and nothing here or in
// the files built on it may use standard containers: an inline function compiled
// with AVX-512 must never be the copy that the linker keeps for everybody.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace ebo::EBO_ISA {

constexpr int W = EBO_LANES;
typedef double vec __attribute__((vector_size(8 * W)));
typedef uint64_t uvec __attribute__((vector_size(8 * W)));
typedef float fvec __attribute__((vector_size(8 * W)));       // 2 W floats
typedef float half_fvec __attribute__((vector_size(4 * W)));  // W floats

#define EBO_INLINE inline __attribute__((always_inline))

EBO_INLINE vec broadcast(double x) { return x - vec{}; }
EBO_INLINE uvec broadcast(uint64_t x) { return x - uvec{}; }
EBO_INLINE const vec& as_vec(const double* p) { return *reinterpret_cast<const vec*>(p); }
EBO_INLINE vec& as_vec(double* p) { return *reinterpret_cast<vec*>(p); }
typedef int64_t ivec __attribute__((vector_size(8 * W)));
typedef uint8_t bytes __attribute__((vector_size(W)));

EBO_INLINE const uvec& as_vec(const uint64_t* p) { return *reinterpret_cast<const uvec*>(p); }
EBO_INLINE const ivec& as_vec(const int64_t* p) { return *reinterpret_cast<const ivec*>(p); }

// What a vector is made of.
template <class V>
struct Parts {
  using number = std::remove_reference_t<decltype(std::declval<V&>()[0])>;
  static constexpr int count = sizeof(V) / sizeof(number);
};

EBO_INLINE vec square_root(vec x) {
#if defined(__AVX512F__)
  return vec(_mm512_sqrt_pd(__m512d(x)));
#elif defined(__AVX2__)
  return vec(_mm256_sqrt_pd(__m256d(x)));
#else
  for (int i = 0; i < W; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
EBO_INLINE fvec square_root(fvec x) {
#if defined(__AVX512F__)
  return fvec(_mm512_sqrt_ps(__m512(x)));
#elif defined(__AVX2__)
  return fvec(_mm256_sqrt_ps(__m256(x)));
#else
  for (int i = 0; i < 2 * W; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
EBO_INLINE half_fvec square_root(half_fvec x) {
#if defined(__AVX512F__)
  return half_fvec(_mm256_sqrt_ps(__m256(x)));
#elif defined(__AVX2__)
  return half_fvec(_mm_sqrt_ps(__m128(x)));
#else
  for (int i = 0; i < W; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

// Number of bits set in every word.
EBO_INLINE uvec bit_count(uvec x) {
#if defined(__AVX512VPOPCNTDQ__)
  return uvec(_mm512_popcnt_epi64(__m512i(x)));
#elif defined(__AVX2__)
  const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                         0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(__m256i(x), low));
  const __m256i b =
      _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi64(__m256i(x), 4), low));
  return uvec(_mm256_sad_epu8(_mm256_add_epi8(a, b), _mm256_setzero_si256()));
#else
  // Bits summed in pairs, fours, bytes, and then all bytes by one multiplication.
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = x + (x >> 4) & 0x0f0f0f0f0f0f0f0fu;
  for (int i = 0; i < W; ++i) x[i] = x[i] * 0x0101010101010101u >> 56;
  return x;
#endif
}

// Small whole numbers as doubles.
EBO_INLINE vec as_doubles(uvec n) {
#if defined(__AVX512DQ__)
  return __builtin_convertvector(n, vec);
#else
  const vec big = broadcast(0x1p52);  // 2^52 + n has the bits of n in its mantissa
  return vec(n | uvec(big)) - big;
#endif
}

// The same in the lanes of any vector, from the words of as many candidates side by side.
EBO_INLINE void bit_counts(const uint64_t* x, uint64_t mask, vec& out) {
  out = as_doubles(bit_count(as_vec(x) & mask));
}
EBO_INLINE void bit_counts(const uint64_t* x, uint64_t mask, half_fvec& out) {
#if defined(__AVX512DQ__)
  out = half_fvec(_mm512_cvtepu64_ps(__m512i(bit_count(as_vec(x) & mask))));
#else
  out = __builtin_convertvector(as_doubles(bit_count(as_vec(x) & mask)), half_fvec);
#endif
}
// Here the lanes are not in order: it is cheaper to put what belongs to them in this order.
EBO_INLINE void bit_counts(const uint64_t* x, uint64_t mask, fvec& out) {
  typedef int32_t narrow __attribute__((vector_size(8 * W)));
  const uvec low = bit_count(as_vec(x) & mask), high = bit_count(as_vec(x + W) & mask);
  out = __builtin_convertvector(narrow(low | high << 32), fvec);
}
// The candidate of a lane.
template <class V>
constexpr int candidate_of(int lane) {
  return Parts<V>::count == W ? lane : lane % 2 * W + lane / 2;
}

// Bit l is set where byte l of a and b differ.
EBO_INLINE uint64_t different_bytes(const uint8_t* a, const uint8_t* b) {
#if defined(__AVX512BW__)
  return _mm512_cmpneq_epi8_mask(_mm512_load_si512(a), _mm512_load_si512(b));
#elif defined(__AVX2__)
  const __m256i* p = reinterpret_cast<const __m256i*>(a);
  const __m256i* q = reinterpret_cast<const __m256i*>(b);
  const uint32_t low = uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(p[0], q[0])));
  const uint32_t high = uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(p[1], q[1])));
  return ~(uint64_t(high) << 32 | low);
#elif defined(__SSE2__)
  const __m128i* p = reinterpret_cast<const __m128i*>(a);
  const __m128i* q = reinterpret_cast<const __m128i*>(b);
  uint64_t same = 0;
  for (int i = 0; i < 4; ++i)
    same |= uint64_t(uint32_t(_mm_movemask_epi8(_mm_cmpeq_epi8(p[i], q[i])))) << 16 * i;
  return ~same;
#else
  uint64_t mask = 0;
  for (int l = 0; l < 64; ++l) mask |= uint64_t(a[l] != b[l]) << l;
  return mask;
#endif
}

// What pairs weigh: whole numbers for bits, which floats hold exactly.
EBO_INLINE vec load(const float* p) {
  return __builtin_convertvector(*reinterpret_cast<const half_fvec*>(p), vec);
}
EBO_INLINE vec load(const double* p) { return as_vec(p); }
EBO_INLINE void store(vec x, float* p) {
  *reinterpret_cast<half_fvec*>(p) = __builtin_convertvector(x, half_fvec);
}
EBO_INLINE void store(vec x, double* p) { as_vec(p) = x; }

// Sets of layers as bits, or one minus a similarity, and what is done with them.
struct Bits {
  using word = uint64_t;
  using pack = uvec;
  using number = float;  // of a pair's weight
  static EBO_INLINE vec weight(uvec a, uvec b) { return as_doubles(bit_count(a & b)); }
  static EBO_INLINE uvec remove(uvec kept, uvec apart) { return kept & ~apart; }
  // Of candidates side by side.
  template <class V>
  static EBO_INLINE V weights(const uint64_t* a, uint64_t b) {
    V out;
    bit_counts(a, b, out);
    return out;
  }
};

struct Limit {
  using word = double;
  using pack = vec;
  using number = double;
  static EBO_INLINE vec weight(vec a, vec b) { return a * b; }
  static EBO_INLINE vec remove(vec kept, vec apart) { return kept * (1.0 - apart); }
  template <class V>
  static EBO_INLINE V weights(const double* a, double b) {
    return as_vec(a) * b;
  }
};

}  // namespace ebo::EBO_ISA
