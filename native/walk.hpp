// The posterior of a leaf for many points, and for points that change a group of dimensions at a
// time. In single precision: good for finding out which point is best.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "acquisition.hpp"
#include "kernels.hpp"
#include "pause.hpp"

namespace ebo {

constexpr size_t LANES = 16;       // floats in the widest vector
constexpr double KNOWN = 0x1p-19;  // least variance that single precision can tell: 16 epsilon

// Looks up once in so many operations: after each row of a small matrix that would cost.
class Work {
 public:
  explicit Work(Pause& pause) : pause_(pause) {}
  void did(size_t operations) {
    done_ += operations;
    if (done_ < size_t(1) << 20) return;
    done_ = 0;
    pause_.look();
  }

 private:
  Pause& pause_;
  size_t done_ = 0;
};

// Mean, deviation and v [n][lane] of points.
struct Moments {
  size_t points, n, lanes;
  std::vector<double> mean, deviation;
  std::vector<float> v;
};

// R^-1 and R^-1 y of a leaf.
struct Root {
  const Kernels& kernels;
  const float *inverse, *w;
  size_t stride;  // of the inverse
};

// Of points whose kappa [point][n] is given.
inline Moments whiten(const Root& root, const float* kappa, size_t points, const float* base,
                      size_t n, Work& work) {
  const size_t lanes = (points + LANES - 1) / LANES * LANES;
  Moments m{points, n, lanes, std::vector<double>(points), std::vector<double>(points),
            std::vector<float>(n * lanes)};
  std::vector<float> space(n * 3 * LANES), dot(lanes), square(lanes);
  const size_t together = 6 * size_t(root.kernels.interleaved.lanes);  // points: all registers
  for (size_t i = 0; i < points; i += together) {
    const size_t some = std::min(together, points - i);
    root.kernels.whiten({n, root.stride, root.inverse, root.w, base, some, lanes, kappa + i * n},
                        space.data(), m.v.data() + i, dot.data() + i, square.data() + i);
    work.did(some * n * n);
  }
  for (size_t i = 0; i < points; ++i) {
    m.mean[i] = dot[i];
    m.deviation[i] = std::sqrt(std::max(1.0 - double(square[i]), KNOWN));
  }
  return m;
}

struct Group {
  const int64_t* members;
  size_t count;

  // The dimensions that are not in it.
  std::vector<int64_t> others(size_t dims) const {
    std::vector<char> inside(dims);
    for (size_t g = 0; g < count; ++g) inside[size_t(members[g])] = 1;
    std::vector<int64_t> all;
    for (size_t d = 0; d < dims; ++d)
      if (!inside[d]) all.push_back(int64_t(d));
    return all;
  }
};

// out[row][column] += scale times the limit kernel of each group, summed over the groups, between
// points P [row][dim] and the limit's.
inline void add_limit(const Kernels& kernels, const LimitPoints& points, const float* P,
                      size_t rows, size_t dims, const std::vector<int64_t>& members,
                      const std::vector<int64_t>& ends, float scale, float* out, Work& work) {
  std::vector<float> space(points.columns);
  for (size_t i = 0; i < rows; ++i, out += points.columns) {
    size_t first = 0;
    for (const int64_t end : ends) {
      kernels.add_similarity(points, P + i * dims, members.data() + first, size_t(end) - first,
                             scale, space.data(), out);
      work.did(points.columns * (size_t(end) - first + 1));
      first = size_t(end);
    }
  }
}

// row[column] += share times the smooth kernel between T and the point P[0], its dimensions of a
// group taken from each of the points P [row][dim].
inline void add_smooth(const Kernels& kernels, const LimitPoints& points, const float* P,
                       size_t rows, size_t dims, const Group& group, float share, float* out,
                       Work& work) {
  const std::vector<int64_t> others = group.others(dims);
  std::vector<float> base(points.columns), square, row(points.columns);
  kernels.add_square_distance(points, P, others.data(), others.size(), base.data());
  for (size_t i = 0; i < rows; ++i, out += points.columns) {
    square = base;
    kernels.add_square_distance(points, P + i * dims, group.members, group.count, square.data());
    kernels.matern(square.data(), points.columns, share, row.data());
    for (size_t j = 0; j < points.columns; ++j) out[j] += row[j];
    work.did(points.columns * (group.count + 1));
  }
}

// A leaf's posterior for points that change: its root and both parts of the kernel.
struct Walk {
  Root root;
  LimitPoints limit, matern;
  bool smooth;         // whether there is the latter
  float scale, share;  // of each
};

// Of the point P[0], whose v is the base, with a group of its dimensions taken from the points P.
inline Moments vary(const Walk& leaf, const std::vector<float>& P, size_t rows, const Group& group,
                    const float* base, Work& work) {
  const Kernels& kernels = leaf.root.kernels;
  const size_t n = leaf.limit.columns, dims = P.size() / rows;
  std::vector<float> kappa(rows * n), space(n);
  for (size_t i = 0; i < rows; ++i) {
    kernels.add_similarity(leaf.limit, P.data() + i * dims, group.members, group.count,
                           leaf.scale, space.data(), kappa.data() + i * n);
    work.did(n * (group.count + 1));
  }
  if (leaf.smooth)
    add_smooth(kernels, leaf.matern, P.data(), rows, dims, group, leaf.share, kappa.data(), work);
  for (size_t i = rows; i-- > 0;)
    for (size_t j = 0; j < n; ++j) kappa[i * n + j] -= kappa[j];
  return whiten(leaf.root, kappa.data(), rows, base, n, work);
}

// A point whose groups are taken, one after the other, from the best of some rows.
struct Climb {
  std::vector<int64_t> rows;  // of each group
  std::vector<float> v;       // of the point

  void run(const Walk& leaf, const Aim& aim, std::vector<float> P, size_t count,
           const std::vector<int64_t>& members, const std::vector<int64_t>& ends, Work& work) {
    const size_t dims = P.size() / count;
    Group group{members.data(), 0};
    for (size_t m = 0; m < rows.size(); ++m) {
      group.members += group.count;
      group.count = size_t(members.data() + ends[m] - group.members);
      const Moments moved = vary(leaf, P, count, group, v.data(), work);
      size_t best = 0;
      double most = aim.worth(moved.mean[0], moved.deviation[0]);
      for (size_t i = 1; i < count; ++i) {
        const double worth = aim.worth(moved.mean[i], moved.deviation[i]);
        if (worth > most) {
          most = worth;
          best = i;
        }
        work.did(TERMS * aim.maxima.size());
      }
      rows[m] = int64_t(best);
      for (size_t g = 0; g < group.count; ++g)
        P[size_t(group.members[g])] = P[best * dims + size_t(group.members[g])];
      for (size_t j = 0; j < v.size(); ++j) v[j] = moved.v[j * moved.lanes + best];
    }
  }
};

}  // namespace ebo
