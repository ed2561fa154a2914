// The Python module `ebo.native`: arrays in, arrays out; checks.hpp has what it refuses.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "checks.hpp"
#include "gibbs.hpp"
#include "walk.hpp"
#include "signals.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ebo {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Points = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rates = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint16_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

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

// A copy, which no other thread can change while the GIL is released.
template <class Array>
auto to_vector(const Array& a) {
  return std::vector<std::remove_const_t<typename Array::Scalar>>(a.data(), a.data() + a.size());
}

template <class T>
nb::ndarray<nb::numpy, T> to_array(std::vector<T> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

nb::tuple as_tuple(Moments m) {
  return nb::make_tuple(to_array(std::move(m.mean), {m.points}),
                        to_array(std::move(m.deviation), {m.points}),
                        to_array(std::move(m.v), {m.n, m.lanes}));
}

const uint8_t* bytes_of(const Mask& mask) { return reinterpret_cast<const uint8_t*>(mask.data()); }

// Cuts, or the rates of a smooth kernel, and the mask of as many dimensions.
void check_rates(const char* name, const Rates& rates, const Mask& categorical, size_t dims) {
  check_shape(name, rates, {{dims, "dimensions"}});
  check_shape("categorical", categorical, {{dims, "dimensions"}});
  check_all(name, rates.data(), dims, 0.0, LARGEST, "finite numbers of at least 0");
}

// Points P and T in the same dimensions, of which the first columns are meant.
size_t check_columns(const Floats& P, const Floats& T, int64_t columns) {
  check_shape("P", P, {at_least(0, "points"), at_least(1, "dimensions")});
  check_shape("T", T, {{P.shape(1), "dimensions"}, at_least(0, "columns")});
  if (columns < 0 || columns > int64_t(T.shape(1)))
    refuse("columns is ", columns, "; give 0 to ", T.shape(1), ", for T is (dimensions, columns)");
  check_memory(4.0 * double(P.shape(0)) * double(columns), "a matrix of ", P.shape(0), " by ",
               columns, " numbers");
  return size_t(columns);
}

// Arrays of Python's that a leaf's posterior is in.
struct WalkArrays {
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
    check_shape("T", T, {at_least(1, "dimensions"), at_least(0, "columns")});
    const size_t dims = T.shape(0), most = T.shape(1);
    check_rates("cuts", cuts, categorical, dims);
    if (rates.size() > 0) check_rates("rates", rates, categorical, dims);
    check_shape("inverse", inverse, {at_least(most, "rows"), at_least(most, "columns")});
    check_shape("w", w, {at_least(most, "columns")});
    check_finite("scale", scale);
    check_finite("share", share);
  }

  // The leaf of the first observations, as many as the base has, for points P.
  Walk first(const Rates& base, const Points& P, const Kernels& kernels) const {
    const size_t n = base.shape(0);
    if (n > T.shape(1))
      refuse("base has ", n, " numbers, more observations than there are; give at most ",
             T.shape(1));
    check_shape("P", P, {at_least(1, "points"), {T.shape(0), "dimensions"}});
    check_all("P", P.data(), P.size(), -LARGEST, LARGEST, "finite numbers");
    check_memory(8.0 * double(P.shape(0)) * double(n), "moments of ", P.shape(0), " points by ", n,
                 " observations");
    const uint8_t* mask = bytes_of(categorical);
    return {{kernels, inverse.data(), w.data(), inverse.shape(1)},
            {laplace, cuts.data(), mask, T.data(), n, T.shape(1)},
            {false, rates.data(), mask, T.data(), n, T.shape(1)},
            rates.shape(0) > 0,
            scale,
            share};
  }
};

// The states that a run went through, one row a sweep.
struct Trace {
  std::vector<int> z, cuts;
  std::vector<double> noise, log_likelihood;
};

Trace run(Gibbs& gibbs, int sweeps, uint64_t seed, bool learn_cuts) {
  std::mt19937_64 random(seed);
  const size_t rows = size_t(sweeps);
  Trace trace;
  trace.z.reserve(rows * gibbs.state().z.size());
  trace.cuts.reserve(rows * gibbs.state().cuts.size());
  trace.noise.reserve(rows);
  trace.log_likelihood.reserve(rows);
  for (int i = 0; i < sweeps; ++i) {
    gibbs.sweep(random, learn_cuts);
    const State& s = gibbs.state();
    trace.z.insert(trace.z.end(), s.z.begin(), s.z.end());
    trace.cuts.insert(trace.cuts.end(), s.cuts.begin(), s.cuts.end());
    trace.noise.push_back(gibbs.noise());
    trace.log_likelihood.push_back(gibbs.log_likelihood());
  }
  return trace;
}

// A sampler that Python holds: for one call at a time, without the GIL.
struct Sampler {
  Signals signals;
  Gibbs gibbs;
  std::atomic<bool> in_use{false};

  Sampler(const Kernels& kernels, Tiling tiling, Prior prior, bool per_layer, int threads)
      : gibbs(kernels, std::move(tiling), std::move(prior), per_layer, threads, signals) {}

  template <class Work>
  auto use(const Work& work) {
    if (in_use.exchange(true))
      throw std::runtime_error(
          "this sampler is busy with another call; wait for its end, or make one for each thread");
    struct Done {
      std::atomic<bool>& in_use;
      ~Done() { in_use = false; }
    } done{in_use};
    signals.begin();
    nb::gil_scoped_release unlock;
    return work(gibbs);
  }
};

NB_MODULE(native, m) {
  m.doc() = "The compiled core of ebo.";
  static const Kernels& kernels = choose();

  m.attr("KNOWN") = KNOWN;
  m.def(
      "instruction_set", [] { return kernels.name; },
      "The instruction set in use: 'avx512', 'avx2' or 'baseline'.");
  m.def("instruction_sets", &instruction_sets,
        "All instruction sets that this machine has, the best first; EBO_SIMD chooses one.");

  // Without more words, for memory can end anywhere.
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const TooMuch&) {
      throw;
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, "the core is out of memory; give less at a time");
    }
  });

  m.def(
      "collisions",
      [](Codes a, Codes b) {
        check_shape("a", a, {at_least(1, "dimensions"), at_least(0, "points"),
                             at_least(1, "layers")});
        const size_t dims = a.shape(0), rows = a.shape(1), layers = a.shape(2);
        check_whole("layers", int64_t(layers), 1, MOST_LAYERS);
        check_shape("b", b, {{dims, "dimensions"}, at_least(0, "points"), {layers, "layers"}});
        const size_t columns = b.shape(1);
        check_memory(4.0 * double(rows) * double(columns), "counts of ", rows, " by ", columns,
                     " points");
        std::vector<int32_t> counts(rows * columns);
        {
          Signals signals;
          Work work(signals);
          nb::gil_scoped_release release;
          const size_t some = (size_t(1) << 24) / (dims * layers) + 1;  // points at a time
          for (size_t i = 0; i < rows; ++i)
            for (size_t j = 0; j < columns; j += some) {
              const size_t count = std::min(some, columns - j);
              kernels.count_collisions({a.data() + i * layers, rows * layers},
                                       {b.data() + j * layers, columns * layers}, dims, layers,
                                       count, counts.data() + i * columns + j);
              work.did(count * layers * dims / 8);
            }
        }
        return to_array(std::move(counts), {rows, columns});
      },
      "a"_a, "b"_a, "Layers on which points share the cell: cells (dims, points, layers) of each.");
  m.def(
      "limit_gram",
      [](bool laplace, Floats P, Floats T, int64_t columns, Numbers members, Numbers ends,
         Rates cuts, Mask categorical, float scale) {
        const size_t n = check_columns(P, T, columns), rows = P.shape(0), dims = P.shape(1);
        check_rates("cuts", cuts, categorical, dims);
        check_finite("scale", scale);
        const std::vector<int64_t> of_groups = to_vector(members), where = to_vector(ends);
        check_groups(of_groups, where, dims);
        std::vector<float> out(rows * n);
        {
          Signals signals;
          Work work(signals);
          nb::gil_scoped_release release;
          add_limit(kernels, {laplace, cuts.data(), bytes_of(categorical), T.data(), n, T.shape(1)},
                    P.data(), rows, dims, of_groups, where, scale, out.data(), work);
        }
        return to_array(std::move(out), {rows, n});
      },
      "laplace"_a, "P"_a, "T"_a, "columns"_a, "members"_a, "ends"_a, "cuts"_a, "categorical"_a,
      "scale"_a,
      "Sum over groups of a limit kernel, times scale: points P (rows, dims), T (dims, columns); "
      "members are the groups' dimensions one after the other, ends where each ends.");
  m.def(
      "smooth_gram",
      [](Floats P, Floats T, int64_t columns, Numbers group, Rates rates, Mask categorical,
         float scale) {
        const size_t n = check_columns(P, T, columns), rows = P.shape(0), dims = P.shape(1);
        check_shape("P", P, {at_least(1, "points"), {dims, "dimensions"}});
        check_rates("rates", rates, categorical, dims);
        check_finite("scale", scale);
        const std::vector<int64_t> members = to_vector(group);
        check_groups(members, {int64_t(members.size())}, dims);
        std::vector<float> out(rows * n);
        {
          Signals signals;
          Work work(signals);
          nb::gil_scoped_release release;
          add_smooth(kernels, {false, rates.data(), bytes_of(categorical), T.data(), n, T.shape(1)},
                     P.data(), rows, dims, {members.data(), members.size()}, scale, out.data(),
                     work);
        }
        return to_array(std::move(out), {rows, n});
      },
      "P"_a, "T"_a, "columns"_a, "group"_a, "rates"_a, "categorical"_a, "scale"_a,
      "A Matern 5/2 kernel of all dimensions, times scale, between T (dims, columns) and the point "
      "P[0] with a group of its dimensions taken from the points P (rows, dims).");
  m.def(
      "whiten",
      [](Floats kappa, Floats inverse, Rates w, Rates base) {
        const size_t points = kappa.shape(0), n = kappa.shape(1);
        check_shape("inverse", inverse, {at_least(n, "rows"), at_least(n, "columns")});
        check_shape("w", w, {at_least(n, "numbers")});
        check_shape("base", base, {{n, "numbers"}});
        check_memory(double(points) * (4.0 * double(n) + 24.0), "moments of ", points,
                     " points by ", n, " observations");
        Moments moments;
        {
          Signals signals;
          Work work(signals);
          nb::gil_scoped_release release;
          const Root root{kernels, inverse.data(), w.data(), inverse.shape(1)};
          moments = whiten(root, kappa.data(), points, base.data(), n, work);
        }
        return as_tuple(std::move(moments));
      },
      "kappa"_a, "inverse"_a, "w"_a, "base"_a,
      "v = base + R^-1 kappa of points kappa (points, n), by the leading part of the triangle R^-1: "
      "v.w and sqrt(1 - v.v) of each, and v as (n, points or more).");
  nb::class_<Aim>(m, "Aim", "What is aimed at; see ebo.acquisition.")
      .def(
          "__init__",
          [](Aim* self, const std::string& kind, double best, double upper_bound,
             double deviations, std::vector<double> maxima, double mean, double scale) {
            const Acquisition code = check_kind(kind);
            check_finite("best", best);
            check_finite("upper_bound", upper_bound);
            check_finite("deviations", deviations);
            check_finite("mean", mean);
            check_positive("scale", scale);
            check_all("maxima", maxima.data(), maxima.size(), -LARGEST, LARGEST, "finite numbers");
            if (code == Acquisition::entropy && maxima.empty())
              refuse("maxima is empty; give samples of the maximum for max-value entropy");
            new (self) Aim{code, best, upper_bound, deviations, std::move(maxima), mean, scale};
          },
          nb::kw_only(), "kind"_a, "best"_a, "upper_bound"_a, "deviations"_a, "maxima"_a, "mean"_a,
          "scale"_a)
      .def(
          "worth",
          [](const Aim& self, Doubles mean, Doubles sd) {
            if (mean.size() != sd.size())
              refuse("mean and sd are of different lengths, ", mean.size(), " and ", sd.size(),
                     "; give one of each for every point");
            std::vector<double> worth(mean.size());
            Signals signals;
            Work work(signals);
            for (size_t i = 0; i < worth.size(); ++i) {
              worth[i] = self.worth(mean.data()[i], sd.data()[i]);
              work.did(TERMS * (1 + self.maxima.size()));
            }
            return to_array(std::move(worth), {mean.size()});
          },
          "mean"_a, "sd"_a, "The acquisition function, of means and deviations in its scale.");
  nb::class_<WalkArrays>(m, "Walk",
                         "The posterior of a leaf, for points that change a group at a time.")
      .def(
          "__init__",
          [](WalkArrays* self, bool laplace, Floats T, Rates cuts, Mask categorical, float scale,
             Rates rates, float share, Floats inverse, Rates w) {
            WalkArrays given{laplace, T, cuts, categorical, scale, rates, share, inverse, w};
            given.check();
            new (self) WalkArrays(std::move(given));
          },
          nb::kw_only(), "laplace"_a, "T"_a.noconvert(), "cuts"_a.noconvert(),
          "categorical"_a.noconvert(), "scale"_a, "rates"_a.noconvert(), "share"_a,
          "inverse"_a.noconvert(), "w"_a.noconvert(),
          "Of observations T (dims, n or more): a limit kernel with cuts, times scale, and, if there "
          "are rates, the smooth kernel, times share; R^-1 and R^-1 y. The arrays are used where "
          "they are, so that observations can be added.")
      .def(
          "vary",
          [](const WalkArrays& self, Points P, Numbers group, Rates base) {
            const Walk leaf = self.first(base, P, kernels);
            const std::vector<int64_t> members = to_vector(group);
            check_groups(members, {int64_t(members.size())}, P.shape(1));
            Moments moments;
            {
              Signals signals;
              Work work(signals);
              nb::gil_scoped_release release;
              const std::vector<float> points(P.data(), P.data() + P.size());
              moments = vary(leaf, points, P.shape(0), {members.data(), members.size()},
                             base.data(), work);
            }
            return as_tuple(std::move(moments));
          },
          "P"_a, "group"_a, "base"_a,
          "What `whiten` tells, for the point P[0], whose v is the base, with a group of its "
          "dimensions taken from the points P (points, dims).")
      .def(
          "climb",
          [](const WalkArrays& self, const Aim& aim, Points P, Numbers members, Numbers ends,
             Rates base) {
            const Walk leaf = self.first(base, P, kernels);
            const std::vector<int64_t> of_groups = to_vector(members), where = to_vector(ends);
            check_groups(of_groups, where, P.shape(1));
            Climb climb{std::vector<int64_t>(where.size()), to_vector(base)};
            {
              Signals signals;
              Work work(signals);
              nb::gil_scoped_release release;
              climb.run(leaf, aim, std::vector<float>(P.data(), P.data() + P.size()), P.shape(0),
                        of_groups, where, work);
            }
            return nb::make_tuple(to_array(std::move(climb.rows), {where.size()}),
                                  to_array(std::move(climb.v), {base.shape(0)}));
          },
          "aim"_a, "P"_a, "members"_a, "ends"_a, "base"_a,
          "The same for groups one after the other, each left where it is worth most: "
          "rows of P that the groups come from, and v of the point that they make.");
  nb::class_<Sampler>(m, "Gibbs", "A Gibbs sampler over the groups and cuts of a TileGP.")
      .def(
          "__init__",
          [](Sampler* self, const std::string& family, int64_t dims, int64_t layers,
             int64_t max_cuts, Doubles uniforms, std::vector<bool> categorical, Doubles alpha,
             double beta_rate, double beta_shape, Doubles widths, int64_t group_limit,
             Doubles noise, bool per_layer, int64_t threads) {
            const Family code = check_family(family);
            check_tiling(code, dims, layers, max_cuts, per_layer);
            check_uniforms(code, size_t(dims), size_t(layers), size_t(max_cuts), uniforms);
            if (categorical.size() != size_t(dims))
              refuse("categorical has ", categorical.size(), " values; give ", dims);
            check_shape("alpha", alpha, {{size_t(dims), "dimensions"}});
            check_shape("widths", widths, {{size_t(dims), "dimensions"}});
            check_shape("noise", noise, {at_least(1, "variances")});
            const int limit =
                check_whole("group_limit", group_limit, 1, std::numeric_limits<int>::max());
            check_whole("threads", threads, 1, MOST_THREADS);
            Prior prior{to_vector(alpha), beta_rate, beta_shape,
                        to_vector(widths), limit,     to_vector(noise)};
            check_prior(prior);
            Tiling tiling(code, int(dims), int(layers), int(max_cuts),
                          {categorical.begin(), categorical.end()}, uniforms.data(),
                          uniforms.size());
            new (self)
                Sampler(kernels, std::move(tiling), std::move(prior), per_layer, int(threads));
          },
          nb::kw_only(), "family"_a, "dims"_a, "layers"_a, "max_cuts"_a, "uniforms"_a,
          "categorical"_a, "alpha"_a, "beta_rate"_a, "beta_shape"_a, "widths"_a, "group_limit"_a,
          "noise"_a, "per_layer"_a, "threads"_a)
      .def(
          "add_block",
          [](Sampler& self, Doubles t, Doubles y) {
            check_shape("y", y, {at_least(0, "points")});
            check_shape("t", t, {{y.size(), "points"},
                                 {size_t(self.gibbs.tiling().dims), "dimensions"}});
            self.use([&](Gibbs& gibbs) {
              check_block(gibbs, y.size(), t.data(), y.data());
              gibbs.add_block(int(y.size()), t.data(), y.data());
            });
          },
          "t"_a, "y"_a, "Add points t (n, dims) in the unit box and their values y (n,).")
      .def(
          "start",
          [](Sampler& self, std::vector<int64_t> z, std::vector<int64_t> cuts, int64_t noise) {
            self.use([&](Gibbs& gibbs) { gibbs.start(check_state(gibbs, z, cuts, noise)); });
          },
          "z"_a, "cuts"_a, "noise"_a, "Start from this state.")
      .def(
          "run",
          [](Sampler& self, int64_t sweeps, uint64_t seed, bool learn_cuts) {
            check_run(self.gibbs, sweeps);
            Trace t = self.use(
                [&](Gibbs& gibbs) { return run(gibbs, int(sweeps), seed, learn_cuts); });
            const size_t rows = size_t(sweeps), dims = size_t(self.gibbs.tiling().dims);
            const size_t per_dim = size_t(self.gibbs.cut_layers());
            return nb::make_tuple(to_array(std::move(t.z), {rows, dims}),
                                  to_array(std::move(t.cuts), {rows, dims, per_dim}),
                                  to_array(std::move(t.noise), {rows}),
                                  to_array(std::move(t.log_likelihood), {rows}));
          },
          "sweeps"_a, "seed"_a, "learn_cuts"_a = true,
          "Sweep over all variables; returns z, cuts, noise and log-likelihood after each sweep.")
      .def(
          "log_likelihood",
          [](Sampler& self) {
            return self.use([](Gibbs& gibbs) { return gibbs.log_likelihood(); });
          },
          "Of the current state.")
      .def(
          "can_be_rough",
          [](Sampler& self) {
            return self.use([](Gibbs& gibbs) { return gibbs.can_be_rough(); });
          },
          "Whether sweeps use likelihoods in single precision, under the noise of the state.")
      .def(
          "rough_log_likelihood",
          [](Sampler& self) {
            return self.use([](Gibbs& gibbs) { return gibbs.rough_log_likelihood(); });
          },
          "Of the current state in single precision, without -n/2 log 2 pi.")
      .def(
          "group_likelihoods",
          [](Sampler& self, int64_t d, bool rough) {
            check_whole("d", d, 0, self.gibbs.tiling().dims - 1);
            auto [labels, all] = self.use([&](Gibbs& gibbs) {
              std::vector<double> values = gibbs.group_likelihoods(int(d), rough);
              return std::pair(gibbs.labels(), std::move(values));
            });
            const size_t groups = labels.size();
            return nb::make_tuple(to_array(std::move(labels), {groups}),
                                  to_array(std::move(all), {groups + 1}));
          },
          "d"_a, "rough"_a = false,
          "Labels of the groups, and log-likelihoods (without -n/2 log 2 pi) with dimension d in "
          "each of them and, last, alone.")
      .def(
          "cut_likelihoods",
          [](Sampler& self, int64_t d, int64_t layer, std::vector<int64_t> cuts, bool rough) {
            const std::vector<int> candidates = check_candidates(self.gibbs, d, layer, cuts);
            return to_array(self.use([&](Gibbs& gibbs) {
                              return gibbs.cut_likelihoods(int(d), int(layer), candidates, rough);
                            }),
                            {cuts.size()});
          },
          "d"_a, "layer"_a, "cuts"_a, "rough"_a = false,
          "Log-likelihoods (without -n/2 log 2 pi) with each of at most 8 numbers of cuts.")
      .def(
          "counts",
          [](Sampler& self) {
            const Counts c = self.use([](Gibbs& gibbs) { return gibbs.counts(); });
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
