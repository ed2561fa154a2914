// Vectors of EBO_LANES doubles or machine words for one instruction set.
//
// Everything lives in a namespace of that instruction set, and nothing here or in
// the files built on it may use standard containers: an inline function compiled
// with AVX-512 must never be the copy that the linker keeps for everybody.
#pragma once
#include <cmath>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace ebo::EBO_ISA {

constexpr int W = EBO_LANES;
typedef double vec __attribute__((vector_size(8 * W)));
typedef uint64_t uvec __attribute__((vector_size(8 * W)));

#define EBO_INLINE inline __attribute__((always_inline))

EBO_INLINE vec broadcast(double x) { return x - vec{}; }
EBO_INLINE uvec broadcast(uint64_t x) { return x - uvec{}; }
EBO_INLINE const vec& as_vec(const double* p) { return *reinterpret_cast<const vec*>(p); }
EBO_INLINE vec& as_vec(double* p) { return *reinterpret_cast<vec*>(p); }
typedef int64_t ivec __attribute__((vector_size(8 * W)));
typedef uint8_t bytes __attribute__((vector_size(W)));

EBO_INLINE const uvec& as_vec(const uint64_t* p) { return *reinterpret_cast<const uvec*>(p); }
EBO_INLINE const ivec& as_vec(const int64_t* p) { return *reinterpret_cast<const ivec*>(p); }

EBO_INLINE double logarithm(double x) { return std::log(x); }
EBO_INLINE vec logarithm(vec x) {
  for (int i = 0; i < W; ++i) x[i] = std::log(x[i]);
  return x;
}

EBO_INLINE vec reciprocal_sqrt(vec x) {
#if defined(__AVX512F__)
  return 1.0 / vec(_mm512_sqrt_pd(__m512d(x)));
#elif defined(__AVX2__)
  return 1.0 / vec(_mm256_sqrt_pd(__m256d(x)));
#else
  for (int i = 0; i < W; ++i) x[i] = 1.0 / std::sqrt(x[i]);
  return x;
#endif
}

// Number of bits set in every word, as doubles.
EBO_INLINE vec bit_count(uvec x) {
#if defined(__AVX512VPOPCNTDQ__)
  return vec(_mm512_cvtepu64_pd(_mm512_popcnt_epi64(__m512i(x))));
#elif defined(__AVX2__)
  const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                         0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(__m256i(x), low));
  const __m256i b =
      _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi64(__m256i(x), 4), low));
  const __m256i n = _mm256_sad_epu8(_mm256_add_epi8(a, b), _mm256_setzero_si256());
  // 2^52 + n has the bits of n in its mantissa.
  const __m256d big = _mm256_set1_pd(4503599627370496.0);
  return vec(_mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(n, _mm256_castpd_si256(big))), big));
#else
  // Bits summed in pairs, fours, bytes, and then all bytes by one multiplication.
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = x + (x >> 4) & 0x0f0f0f0f0f0f0f0fu;
  vec out;
  for (int i = 0; i < W; ++i) out[i] = double(int(x[i] * 0x0101010101010101u >> 56));
  return out;
#endif
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

// Bit l is set where value l of 64 is at most x.
EBO_INLINE uint64_t at_most(const double* values, double x) {
  uint64_t mask = 0;
  for (int l = 0; l < 64; l += W) {
#if defined(__AVX512F__)
    const uint64_t part =
        _mm512_cmp_pd_mask(__m512d(as_vec(values + l)), _mm512_set1_pd(x), _CMP_LE_OQ);
#elif defined(__AVX2__)
    const uint64_t part = uint64_t(_mm256_movemask_pd(
        _mm256_cmp_pd(__m256d(as_vec(values + l)), _mm256_set1_pd(x), _CMP_LE_OQ)));
#else
    uint64_t part = 0;
    for (int i = 0; i < W; ++i) part |= uint64_t(values[l + i] <= x) << i;
#endif
    mask |= part << l;
  }
  return mask;
}

// Sets of layers as bits, or one minus a similarity, and what is done with them.
struct Bits {
  using word = uint64_t;
  using pack = uvec;
  static EBO_INLINE vec weight(uvec a, uvec b) { return bit_count(a & b); }
  static EBO_INLINE uvec remove(uvec kept, uvec apart) { return kept & ~apart; }
  static EBO_INLINE double weight(uint64_t a, uint64_t b) { return __builtin_popcountll(a & b); }
  static EBO_INLINE uint64_t remove(uint64_t kept, uint64_t apart) { return kept & ~apart; }
};

struct Limit {
  using word = double;
  using pack = vec;
  static EBO_INLINE vec weight(vec a, vec b) { return a * b; }
  static EBO_INLINE vec remove(vec kept, vec apart) { return kept * (1.0 - apart); }
  static EBO_INLINE double weight(double a, double b) { return a * b; }
  static EBO_INLINE double remove(double kept, double apart) { return kept * (1.0 - apart); }
};

}  // namespace ebo::EBO_ISA
