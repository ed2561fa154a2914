// The Python module `ebo.native`: arrays in, arrays out; bad input was refused before.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>

#include "acquisition.hpp"
#include "gibbs.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ebo {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Points = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rates = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Cells = nb::ndarray<const uint16_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

constexpr size_t LANES = 16;  // floats in the widest vector
constexpr double KNOWN = 0x1p-19;  // least variance that single precision can tell: 16 epsilon

std::vector<const Kernels*> supported() {
  std::vector<const Kernels*> found;
#ifdef EBO_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vpopcntdq"))
    found.push_back(&kernels_avx512);
  if (avx2) found.push_back(&kernels_avx2);
#endif
  found.push_back(&kernels_baseline);
  return found;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Kernels* k : supported()) names.push_back(k->name);
  return names;
}

// The best that the processor has, or the one that EBO_SIMD asks for.
const Kernels& choose() {
  const char* asked = std::getenv("EBO_SIMD");
  if (!asked || !*asked) return *supported().front();
  std::string names;
  for (const Kernels* k : supported()) {
    if (std::string(asked) == k->name) return *k;
    names += std::string(names.empty() ? "" : ", ") + k->name;
  }
  throw nb::import_error(("EBO_SIMD is '" + std::string(asked) + "', but this machine has " + names +
                          ": set it to one of these, or unset it")
                             .c_str());
}

template <class T>
std::vector<T> to_vector(const nb::ndarray<const T, nb::c_contig, nb::device::cpu>& a) {
  return std::vector<T>(a.data(), a.data() + a.size());
}

template <class T>
nb::ndarray<nb::numpy, T> to_array(std::vector<T> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

void check_triangle(size_t n, const Floats& inverse, const Rates& w, const Rates& base) {
  if (inverse.shape(0) < n || inverse.shape(1) < n || w.shape(0) < n || base.shape(0) != n)
    throw nb::value_error("arrays of different lengths");
}

// Mean, deviation and v [n][lane] of points.
struct Moments {
  size_t points, n, lanes;
  std::vector<double> mean, deviation;
  std::vector<float> v;

  nb::tuple as_tuple() {
    return nb::make_tuple(to_array(std::move(mean), {points}),
                          to_array(std::move(deviation), {points}),
                          to_array(std::move(v), {n, lanes}));
  }
};

// R^-1 and R^-1 y of a leaf.
struct Root {
  const Kernels& kernels;
  const float *inverse, *w;
  size_t stride;  // of the inverse
};

// Of points whose kappa [point][n] is given.
Moments whiten(const Root& root, const float* kappa, size_t points, const float* base, size_t n) {
  const size_t lanes = (points + LANES - 1) / LANES * LANES;
  Moments m{points, n, lanes, std::vector<double>(points), std::vector<double>(points),
            std::vector<float>(n * lanes)};
  std::vector<float> work(n * 3 * LANES), dot(lanes), square(lanes);
  const Triangle triangle{n, root.stride, root.inverse, root.w, base, points, lanes, kappa};
  root.kernels.whiten(triangle, work.data(), m.v.data(), dot.data(), square.data());
  for (size_t i = 0; i < points; ++i) {
    m.mean[i] = dot[i];
    m.deviation[i] = std::sqrt(std::max(1.0 - double(square[i]), KNOWN));
  }
  return m;
}

void check_group(const Numbers& group, size_t dims) {
  for (size_t g = 0; g < group.shape(0); ++g)
    if (group.data()[g] < 0 || group.data()[g] >= int64_t(dims))
      throw nb::value_error("a group has a dimension that is not there");
}

// Groups of dimensions, one after the other, and where each ends.
void check_groups(const Numbers& members, const Numbers& ends, size_t dims) {
  int64_t begin = 0;
  for (size_t m = 0; m < ends.shape(0); begin = ends.data()[m++])
    if (ends.data()[m] < begin || ends.data()[m] > int64_t(members.shape(0)))
      throw nb::value_error("groups must end one after the other");
  check_group(members, dims);
}

struct Group {
  const int64_t* members;
  size_t count;

  // The dimensions that are not in it.
  std::vector<int64_t> others(size_t dims) const {
    std::vector<int64_t> all;
    for (size_t d = 0; d < dims; ++d)
      if (std::find(members, members + count, int64_t(d)) == members + count)
        all.push_back(int64_t(d));
    return all;
  }
};

// row[column] += share times the smooth kernel between T and the point P[0], its dimensions of a
// group taken from each of the points P [row][dim].
void add_smooth(const Kernels& kernels, const LimitPoints& points, const float* P, size_t rows,
                size_t dims, const Group& group, float share, float* out) {
  const std::vector<int64_t> others = group.others(dims);
  std::vector<float> base(points.columns), square, row(points.columns);
  kernels.add_square_distance(points, P, others.data(), others.size(), base.data());
  for (size_t i = 0; i < rows; ++i, out += points.columns) {
    square = base;
    kernels.add_square_distance(points, P + i * dims, group.members, group.count, square.data());
    kernels.matern(square.data(), points.columns, share, row.data());
    for (size_t j = 0; j < points.columns; ++j) out[j] += row[j];
  }
}

// A leaf's posterior for points that change: its root and both parts of the kernel.
struct Leaf {
  Root root;
  LimitPoints limit, matern;
  bool smooth;         // whether there is the latter
  float scale, share;  // of each
};

// Of the point P[0], whose v is the base, with a group of its dimensions taken from the points P.
Moments vary(const Leaf& leaf, const std::vector<float>& P, size_t rows, const Group& group,
             const float* base) {
  const Kernels& kernels = leaf.root.kernels;
  const size_t n = leaf.limit.columns, dims = P.size() / rows;
  std::vector<float> kappa(rows * n), work(n);
  for (size_t i = 0; i < rows; ++i)
    kernels.add_similarity(leaf.limit, P.data() + i * dims, group.members, group.count,
                           leaf.scale, work.data(), kappa.data() + i * n);
  if (leaf.smooth)
    add_smooth(kernels, leaf.matern, P.data(), rows, dims, group, leaf.share, kappa.data());
  for (size_t i = rows; i-- > 0;)
    for (size_t j = 0; j < n; ++j) kappa[i * n + j] -= kappa[j];
  return whiten(leaf.root, kappa.data(), rows, base, n);
}

// Arrays of Python's that a leaf's posterior is in.
struct LeafArrays {
  bool laplace;
  Floats T;
  Rates cuts;
  Mask categorical;
  float scale;
  Rates rates;
  float share;
  Floats inverse;
  Rates w;

  void check() const {
    const size_t dims = T.shape(0), most = T.shape(1), smooth = rates.shape(0);
    if (cuts.shape(0) != dims || categorical.shape(0) != dims || (smooth > 0 && smooth != dims) ||
        inverse.shape(0) < most || inverse.shape(1) < most || w.shape(0) < most)
      throw nb::value_error("arrays of different dimensions or lengths");
  }

  // The leaf of the first n observations, for points P.
  Leaf first(size_t n, const Points& P, const Kernels& kernels) const {
    if (n > T.shape(1)) throw nb::value_error("more observations than there are");
    if (P.shape(0) == 0 || P.shape(1) != T.shape(0))
      throw nb::value_error("points of other dimensions, or none");
    const auto* mask = reinterpret_cast<const uint8_t*>(categorical.data());
    return {{kernels, inverse.data(), w.data(), inverse.shape(1)},
            {laplace, cuts.data(), mask, T.data(), n, T.shape(1)},
            {false, rates.data(), mask, T.data(), n, T.shape(1)},
            rates.shape(0) > 0,
            scale,
            share};
  }
};

// A point whose groups are taken, one after the other, from the best of some rows.
struct Climb {
  std::vector<int64_t> rows;  // of each group
  std::vector<float> v;       // of the point

  void run(const Leaf& leaf, const Goal& goal, std::vector<float> P, size_t count,
           const int64_t* members, const int64_t* ends) {
    const size_t dims = P.size() / count;
    Group group{members, 0};
    for (size_t m = 0; m < rows.size(); ++m) {
      group.members += group.count;
      group.count = size_t(members + ends[m] - group.members);
      const Moments moved = vary(leaf, P, count, group, v.data());
      size_t best = 0;
      double most = goal.worth(moved.mean[0], moved.deviation[0]);
      for (size_t i = 1; i < count; ++i) {
        const double worth = goal.worth(moved.mean[i], moved.deviation[i]);
        if (worth > most) {
          most = worth;
          best = i;
        }
      }
      rows[m] = int64_t(best);
      for (size_t g = 0; g < group.count; ++g)
        P[size_t(group.members[g])] = P[best * dims + size_t(group.members[g])];
      for (size_t j = 0; j < v.size(); ++j) v[j] = moved.v[j * moved.lanes + best];
    }
  }
};

// The states that a run went through, one row a sweep.
struct Trace {
  std::vector<int> z, cuts;
  std::vector<double> noise, log_likelihood;
};

Trace run(Gibbs& gibbs, int sweeps, uint64_t seed, bool learn_cuts) {
  using clock = std::chrono::steady_clock;
  std::mt19937_64 random(seed);
  auto last = clock::now();
  // Long runs can be interrupted, but asking Python at every step would cost.
  const auto pause = [&last] {
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(100)) return;
    last = now;
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
  Trace trace;
  nb::gil_scoped_release unlock;
  for (int i = 0; i < sweeps; ++i) {
    gibbs.sweep(random, learn_cuts, pause);
    const State& s = gibbs.state();
    trace.z.insert(trace.z.end(), s.z.begin(), s.z.end());
    trace.cuts.insert(trace.cuts.end(), s.cuts.begin(), s.cuts.end());
    trace.noise.push_back(gibbs.noise());
    trace.log_likelihood.push_back(gibbs.log_likelihood());
  }
  return trace;
}

NB_MODULE(native, m) {
  m.doc() = "The compiled core of ebo.";
  static const Kernels& kernels = choose();

  m.attr("KNOWN") = KNOWN;
  m.def(
      "instruction_set", [] { return kernels.name; },
      "The instruction set in use: 'avx512', 'avx2' or 'baseline'.");
  m.def("instruction_sets", &instruction_sets,
        "All instruction sets that this machine has, the best first; EBO_SIMD chooses one.");

  m.def(
      "collisions",
      [](Cells a, Cells b) {
        const size_t dims = a.shape(0), rows = a.shape(1), columns = b.shape(1);
        if (b.shape(0) != dims || b.shape(2) != a.shape(2) || a.shape(2) >= 65536)
          throw nb::value_error("cells of different dimensions or layers, or too many layers");
        std::vector<int32_t> counts(rows * columns);
        {
          nb::gil_scoped_release release;
          kernels.count_collisions(a.data(), b.data(), counts.data(), dims, rows, columns,
                                   a.shape(2));
        }
        return to_array(std::move(counts), {rows, columns});
      },
      "a"_a, "b"_a, "Layers on which points share the cell: cells (dims, points, layers) of each.");
  m.def(
      "limit_gram",
      [](bool laplace, Floats P, Floats T, size_t columns, Numbers members, Numbers ends,
         Rates cuts, Mask categorical, float scale) {
        const size_t rows = P.shape(0), dims = P.shape(1), groups = ends.shape(0);
        if (T.shape(0) != dims || cuts.shape(0) != dims || categorical.shape(0) != dims ||
            columns > T.shape(1))
          throw nb::value_error("arrays of different dimensions");
        check_groups(members, ends, dims);
        std::vector<float> out(rows * columns), work(columns);
        {
          nb::gil_scoped_release release;
          const auto* mask = reinterpret_cast<const uint8_t*>(categorical.data());
          const LimitPoints points{laplace, cuts.data(), mask, T.data(), columns, T.shape(1)};
          for (size_t i = 0; i < rows; ++i) {
            size_t first = 0;
            for (size_t m = 0; m < groups; ++m) {
              const size_t end = size_t(ends.data()[m]);
              kernels.add_similarity(points, P.data() + i * dims, members.data() + first,
                                     end - first, scale, work.data(), out.data() + i * columns);
              first = end;
            }
          }
        }
        return to_array(std::move(out), {rows, columns});
      },
      "laplace"_a, "P"_a, "T"_a, "columns"_a, "members"_a, "ends"_a, "cuts"_a, "categorical"_a,
      "scale"_a,
      "Sum over groups of a limit kernel, times scale: points P (rows, dims), T (dims, columns); "
      "members are the groups' dimensions one after the other, ends where each ends.");
  m.def(
      "smooth_gram",
      [](Floats P, Floats T, size_t columns, Numbers group, Rates rates, Mask categorical,
         float scale) {
        const size_t rows = P.shape(0), dims = P.shape(1);
        if (rows == 0 || T.shape(0) != dims || rates.shape(0) != dims ||
            categorical.shape(0) != dims || columns > T.shape(1))
          throw nb::value_error("arrays of different dimensions, or no points");
        check_group(group, dims);
        std::vector<float> out(rows * columns);
        {
          nb::gil_scoped_release release;
          const auto* mask = reinterpret_cast<const uint8_t*>(categorical.data());
          const LimitPoints points{false, rates.data(), mask, T.data(), columns, T.shape(1)};
          add_smooth(kernels, points, P.data(), rows, dims, {group.data(), group.shape(0)}, scale,
                     out.data());
        }
        return to_array(std::move(out), {rows, columns});
      },
      "P"_a, "T"_a, "columns"_a, "group"_a, "rates"_a, "categorical"_a, "scale"_a,
      "A Matern 5/2 kernel of all dimensions, times scale, between T (dims, columns) and the point "
      "P[0] with a group of its dimensions taken from the points P (rows, dims).");
  m.def(
      "whiten",
      [](Floats kappa, Floats inverse, Rates w, Rates base) {
        const size_t n = kappa.shape(1);
        check_triangle(n, inverse, w, base);
        Moments moments;
        {
          nb::gil_scoped_release release;
          const Root root{kernels, inverse.data(), w.data(), inverse.shape(1)};
          moments = whiten(root, kappa.data(), kappa.shape(0), base.data(), n);
        }
        return moments.as_tuple();
      },
      "kappa"_a, "inverse"_a, "w"_a, "base"_a,
      "v = base + R^-1 kappa of points kappa (points, n), by the leading part of the triangle R^-1: "
      "v.w and sqrt(1 - v.v) of each, and v as (n, points or more).");
  nb::class_<Goal>(m, "Goal", "What is aimed at; see ebo.acquisition.")
      .def(
          "__init__",
          [](Goal* self, const std::string& kind, double best, double upper_bound,
             double deviations, std::vector<double> maxima, double mean, double scale) {
            const Acquisition code = kind == "eta"   ? Acquisition::eta
                                     : kind == "ucb" ? Acquisition::upper_confidence
                                     : kind == "ei"  ? Acquisition::improvement
                                     : kind == "pi"  ? Acquisition::probability
                                                     : Acquisition::entropy;
            if (code == Acquisition::entropy && maxima.empty())
              throw nb::value_error("max-value entropy needs samples of the maximum");
            new (self) Goal{code, best, upper_bound, deviations, std::move(maxima), mean, scale};
          },
          nb::kw_only(), "kind"_a, "best"_a, "upper_bound"_a, "deviations"_a, "maxima"_a, "mean"_a,
          "scale"_a)
      .def(
          "worth",
          [](const Goal& self, Doubles mean, Doubles sd) {
            if (mean.size() != sd.size()) throw nb::value_error("arrays of different lengths");
            std::vector<double> worth(mean.size());
            for (size_t i = 0; i < worth.size(); ++i)
              worth[i] = self.worth(mean.data()[i], sd.data()[i]);
            return to_array(std::move(worth), {mean.size()});
          },
          "mean"_a, "sd"_a, "The acquisition function, of means and deviations in its scale.");
  nb::class_<LeafArrays>(m, "Leaf",
                         "The posterior of a leaf, for points that change a group at a time.")
      .def(
          "__init__",
          [](LeafArrays* self, bool laplace, Floats T, Rates cuts, Mask categorical, float scale,
             Rates rates, float share, Floats inverse, Rates w) {
            LeafArrays given{laplace, T, cuts, categorical, scale, rates, share, inverse, w};
            given.check();
            new (self) LeafArrays(std::move(given));
          },
          nb::kw_only(), "laplace"_a, "T"_a.noconvert(), "cuts"_a.noconvert(),
          "categorical"_a.noconvert(), "scale"_a, "rates"_a.noconvert(), "share"_a,
          "inverse"_a.noconvert(), "w"_a.noconvert(),
          "Of observations T (dims, n or more): a limit kernel with cuts, times scale, and, if there "
          "are rates, the smooth kernel, times share; R^-1 and R^-1 y. The arrays are used where "
          "they are, so that observations can be added.")
      .def(
          "vary",
          [](const LeafArrays& self, Points P, Numbers group, Rates base) {
            const Leaf leaf = self.first(base.shape(0), P, kernels);
            check_group(group, P.shape(1));
            Moments moments;
            {
              nb::gil_scoped_release release;
              const std::vector<float> points(P.data(), P.data() + P.size());
              moments = vary(leaf, points, P.shape(0), {group.data(), group.shape(0)}, base.data());
            }
            return moments.as_tuple();
          },
          "P"_a, "group"_a, "base"_a,
          "What `whiten` tells, for the point P[0], whose v is the base, with a group of its "
          "dimensions taken from the points P (points, dims).")
      .def(
          "climb",
          [](const LeafArrays& self, const Goal& goal, Points P, Numbers members, Numbers ends,
             Rates base) {
            const Leaf leaf = self.first(base.shape(0), P, kernels);
            check_groups(members, ends, P.shape(1));
            Climb climb{std::vector<int64_t>(ends.shape(0)),
                        std::vector<float>(base.data(), base.data() + base.shape(0))};
            {
              nb::gil_scoped_release release;
              climb.run(leaf, goal, std::vector<float>(P.data(), P.data() + P.size()), P.shape(0),
                        members.data(), ends.data());
            }
            return nb::make_tuple(to_array(std::move(climb.rows), {ends.shape(0)}),
                                  to_array(std::move(climb.v), {base.shape(0)}));
          },
          "goal"_a, "P"_a, "members"_a, "ends"_a, "base"_a,
          "The same for groups one after the other, each left where the goal's worth is largest: "
          "rows of P that the groups come from, and v of the point that they make.");
  nb::class_<Gibbs>(m, "Gibbs", "A Gibbs sampler over the groups and cuts of a TileGP.")
      .def(
          "__init__",
          [](Gibbs* self, const std::string& family, int dims, int layers, int max_cuts,
             Doubles uniforms, std::vector<bool> categorical, Doubles alpha, double beta_rate,
             double beta_shape, Doubles widths, int group_limit, Doubles noise, bool per_layer,
             int threads) {
            const Family code = family == "tile_coding"     ? Family::tile_coding
                                : family == "mondrian_grid" ? Family::mondrian_grid
                                : family == "hat"           ? Family::hat
                                                            : Family::laplace;
            Tiling tiling(code, dims, layers, max_cuts, {categorical.begin(), categorical.end()},
                          uniforms.data(), uniforms.size());
            Prior prior{to_vector(alpha), beta_rate,   beta_shape,
                        to_vector(widths), group_limit, to_vector(noise)};
            new (self) Gibbs(kernels, std::move(tiling), std::move(prior), per_layer, threads);
          },
          nb::kw_only(), "family"_a, "dims"_a, "layers"_a, "max_cuts"_a, "uniforms"_a,
          "categorical"_a, "alpha"_a, "beta_rate"_a, "beta_shape"_a, "widths"_a, "group_limit"_a,
          "noise"_a, "per_layer"_a, "threads"_a)
      .def(
          "add_block",
          [](Gibbs& self, Doubles t, Doubles y) {
            const double *points = t.data(), *values = y.data();
            const int n = int(y.size());
            nb::gil_scoped_release unlock;
            self.add_block(n, points, values);
          },
          "t"_a, "y"_a, "Add points t (n, dims) in the unit box and their values y (n,).")
      .def(
          "start",
          [](Gibbs& self, std::vector<int> z, std::vector<int> cuts, int noise) {
            nb::gil_scoped_release unlock;
            self.start({std::move(z), std::move(cuts), noise});
          },
          "z"_a, "cuts"_a, "noise"_a, "Start from this state.")
      .def(
          "run",
          [](Gibbs& self, int sweeps, uint64_t seed, bool learn_cuts) {
            Trace t = run(self, sweeps, seed, learn_cuts);
            const size_t rows = sweeps, dims = self.state().z.size();
            const size_t per_dim = self.state().cuts.size() / dims;
            return nb::make_tuple(to_array(std::move(t.z), {rows, dims}),
                                  to_array(std::move(t.cuts), {rows, dims, per_dim}),
                                  to_array(std::move(t.noise), {rows}),
                                  to_array(std::move(t.log_likelihood), {rows}));
          },
          "sweeps"_a, "seed"_a, "learn_cuts"_a = true,
          "Sweep over all variables; returns z, cuts, noise and log-likelihood after each sweep.")
      .def("log_likelihood", &Gibbs::log_likelihood, "Of the current state.")
      .def("can_be_rough", &Gibbs::can_be_rough,
           "Whether sweeps use likelihoods in single precision, under the noise of the state.")
      .def("rough_log_likelihood", &Gibbs::rough_log_likelihood,
           "Of the current state in single precision, without -n/2 log 2 pi.")
      .def(
          "group_likelihoods",
          [](Gibbs& self, int d, bool rough) {
            self.be_rough(rough);
            std::vector<double> all =
                self.group_likelihoods(d, std::vector<char>(self.groups() + 1, 1));
            self.be_rough(false);
            return nb::make_tuple(to_array(self.labels(), {size_t(self.groups())}),
                                  to_array(std::move(all), {size_t(self.groups() + 1)}));
          },
          "d"_a, "rough"_a = false,
          "Labels of the groups, and log-likelihoods (without -n/2 log 2 pi) with dimension d in "
          "each of them and, last, alone.")
      .def(
          "cut_likelihoods",
          [](Gibbs& self, int d, int layer, std::vector<int> cuts, bool rough) {
            self.be_rough(rough);
            std::vector<double> all = self.cut_likelihoods(d, layer, cuts);
            self.be_rough(false);
            return to_array(std::move(all), {cuts.size()});
          },
          "d"_a, "layer"_a, "cuts"_a, "rough"_a = false,
          "Log-likelihoods (without -n/2 log 2 pi) with each of at most 8 numbers of cuts.")
      .def(
          "counts",
          [](const Gibbs& self) {
            const Counts& c = self.counts();
            nb::dict d;
            d["candidates"] = c.candidates;
            d["group_steps"] = c.group_steps;
            d["group_changes"] = c.group_changes;
            d["cut_steps"] = c.cut_steps;
            d["cut_changes"] = c.cut_changes;
            d["sweeps"] = c.sweeps;
            d["rejections"] = c.rejections;
            return d;
          },
          "How many likelihoods, steps and changes there were.");
}

}  // namespace ebo
