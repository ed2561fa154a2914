// What Python gives, looked at once a call, before anything is made of it. Every message says what
// was given, and what to give. What is an index, a size or a setting is looked at, and the data of
// the sampler; numbers that only go through arithmetic are not: NaN in, NaN out.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <new>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "acquisition.hpp"
#include "gibbs.hpp"

namespace ebo {

constexpr int MOST_CUTS = 255;           // a cell is a byte
constexpr int MOST_CELLS = 1 << 24;      // layers times groups: counted in single precision
constexpr int MOST_POINTS = 1 << 16;     // of a block, whose pairs have places in memory
constexpr int MOST_THREADS = 1024;
constexpr int MOST_LAYERS = (1 << 16) - 1;  // of points that collide: counted in 16 bits
constexpr double LARGEST = std::numeric_limits<double>::max();
constexpr double SMALLEST = std::numeric_limits<double>::min();

// A MemoryError that says more.
class TooMuch : public std::bad_alloc {
 public:
  explicit TooMuch(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw std::invalid_argument(text(parts...));
}

// ---- numbers -------------------------------------------------------------------------

inline int check_whole(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) refuse(name, " is ", value, "; give ", least, " to ", most);
  return int(value);
}

inline void check_finite(const char* name, double value) {
  if (!std::isfinite(value)) refuse(name, " is ", value, "; give a finite number");
}

inline void check_positive(const char* name, double value) {
  if (!(value >= SMALLEST && value <= LARGEST))
    refuse(name, " is ", value, "; give a positive, finite number");
}

template <class T>
void check_all(const char* name, const T* values, size_t count, double least, double most,
               const char* wanted) {
  const auto good = [&](T value) { return double(value) >= least && double(value) <= most; };
  bool all = true;  // without branches first, for that is fast
  for (size_t i = 0; i < count; ++i) all &= good(values[i]);
  if (all) return;
  const size_t at = size_t(std::find_if_not(values, values + count, good) - values);
  refuse(name, " has ", values[at], " at place ", at, "; give ", wanted);
}

// ---- shapes --------------------------------------------------------------------------

// What one axis of an array must be.
struct Axis {
  size_t size;
  const char* of;
  bool or_more = false;
};
inline Axis at_least(size_t size, const char* of) { return {size, of, true}; }

inline std::string as_text(const Axis& axis) {
  return text(axis.size, axis.or_more ? " or more " : " ", axis.of);
}
inline std::string as_text(size_t size) { return text(size); }

template <class Sizes>
std::string tuple_of(const Sizes& sizes) {
  std::string all;
  for (const auto& size : sizes) all += (all.empty() ? "" : ", ") + as_text(size);
  return "(" + all + (sizes.size() == 1 ? ",)" : ")");
}

template <class Array>
void check_shape(const char* name, const Array& array, std::initializer_list<Axis> wanted) {
  bool fits = array.ndim() == wanted.size();
  size_t i = 0;
  for (const Axis& axis : wanted) {
    if (!fits) break;
    const size_t size = size_t(array.shape(i++));
    fits = axis.or_more ? size >= axis.size : size == axis.size;
  }
  if (fits) return;
  std::vector<size_t> shape;
  for (i = 0; i < array.ndim(); ++i) shape.push_back(size_t(array.shape(i)));
  refuse(name, " has shape ", tuple_of(shape), "; give ", tuple_of(wanted));
}

// Before memory is asked for; bytes as a double, which does not overflow.
template <class... Parts>
void check_memory(double bytes, const Parts&... what) {
  static const double all = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  if (bytes <= all) return;
  throw TooMuch(text(what..., " would take ", bytes / 1e9, " GB, and this machine has ",
                     all / 1e9, " GB in all; give less at a time"));
}

// ---- names ---------------------------------------------------------------------------

template <class Code>
struct Named {
  const char* name;
  Code code;
};

template <class Code, size_t count>
Code check_name(const char* what, const std::string& name, const Named<Code> (&all)[count]) {
  std::string names;
  for (const auto& one : all) {
    if (name == one.name) return one.code;
    names += text(names.empty() ? "'" : ", '", one.name, "'");
  }
  refuse(what, " is '", name, "'; give one of ", names);
}

inline Acquisition check_kind(const std::string& name) {
  static constexpr Named<Acquisition> all[] = {{"eta", Acquisition::eta},
                                               {"ucb", Acquisition::upper_confidence},
                                               {"ei", Acquisition::improvement},
                                               {"pi", Acquisition::probability},
                                               {"mes", Acquisition::entropy}};
  return check_name("kind", name, all);
}

inline Family check_family(const std::string& name) {
  static constexpr Named<Family> all[] = {{"tile_coding", Family::tile_coding},
                                          {"mondrian_grid", Family::mondrian_grid},
                                          {"hat", Family::hat},
                                          {"laplace", Family::laplace}};
  return check_name("family", name, all);
}

// ---- groups of dimensions ------------------------------------------------------------

// One after the other, and where each ends: none has a dimension twice.
inline void check_groups(const std::vector<int64_t>& members, const std::vector<int64_t>& ends,
                         size_t dims) {
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end < begin || end > int64_t(members.size()))
      refuse("ends has ", end, " after ", begin, "; give where groups end, one after the other, ",
             "in ", members.size(), " members");
    begin = end;
  }
  std::vector<int64_t> last(dims, -1);  // place at which a dimension was met
  size_t group = 0;
  begin = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const int64_t d = members[i];
    if (d < 0 || d >= int64_t(dims))
      refuse("a group has dimension ", d, ", a dimension that is not there; give 0 to ",
             int64_t(dims) - 1);
    for (; group < ends.size() && int64_t(i) >= ends[group]; ++group) begin = ends[group];
    if (last[size_t(d)] >= begin) refuse("a group has dimension ", d, " twice; give it once");
    last[size_t(d)] = int64_t(i);
  }
}

// ---- the sampler ---------------------------------------------------------------------

// What a tiling is made of, but for its arrays.
inline void check_tiling(Family family, int64_t dims, int64_t layers, int64_t max_cuts,
                         bool per_layer) {
  const bool is_limit = family == Family::hat || family == Family::laplace;
  check_whole("dims", dims, 1, MOST_CELLS / 2 - 1);
  check_whole("max_cuts", max_cuts, 0, MOST_CUTS);
  check_whole(is_limit ? "layers of a limit kernel" : "layers", layers, 1,
              is_limit ? 1 : MOST_CELLS / (dims + 1));
  if (per_layer) check_whole("layers with cuts of their own", layers, 1, MOST_CELLS / (MOST_CUTS + 1));
}

// The uniforms: tile coding (dims, layers), Mondrian grid (dims, max_cuts or more, layers).
template <class Array>
void check_uniforms(Family family, size_t dims, size_t layers, size_t max_cuts,
                    const Array& uniforms) {
  if (family == Family::tile_coding)
    check_shape("uniforms", uniforms, {{dims, "dimensions"}, {layers, "layers"}});
  else if (family == Family::mondrian_grid)
    check_shape("uniforms", uniforms,
                {{dims, "dimensions"}, at_least(max_cuts, "cuts"), {layers, "layers"}});
  else
    check_shape("uniforms of a limit kernel", uniforms, {{0, "numbers"}});
  check_all("uniforms", uniforms.data(), uniforms.size(), 0.0, 1.0, "numbers from 0 to 1");
}

inline void check_prior(const Prior& prior) {
  check_all("alpha", prior.alpha.data(), prior.alpha.size(), SMALLEST, LARGEST,
            "positive, finite numbers");
  check_positive("beta_rate", prior.beta_rate);
  check_positive("beta_shape", prior.beta_shape);
  check_all("widths", prior.widths.data(), prior.widths.size(), SMALLEST, 1.0,
            "numbers above 0 and at most 1");
  check_all("noise", prior.noise.data(), prior.noise.size(), SMALLEST, LARGEST,
            "positive, finite numbers");
}

// A block's points t [n][dims] and values y [n].
inline void check_block(const Gibbs& gibbs, size_t n, const double* t, const double* y) {
  const Tiling& tiling = gibbs.tiling();
  check_whole("points of the block", int64_t(n), 0, MOST_POINTS);
  const size_t dims = size_t(tiling.dims);
  check_all("t", t, n * dims, 0.0, 1.0, "points of the unit box, from 0 to 1");
  check_all("y", y, n, -LARGEST, LARGEST, "finite numbers");
  check_memory(gibbs.memory() + Block::least_memory(tiling, int(n)), "blocks up to one of ", n,
               " points in ", dims, " dimensions");
  for (size_t d = 0; d < dims && n > MOST_CUTS + 1 && !tiling.is_limit(); ++d) {
    if (!tiling.categorical[d]) continue;
    std::set<double> categories;
    for (size_t i = 0; i < n; ++i) categories.insert(t[i * dims + d]);
    if (categories.size() > MOST_CUTS + 1)
      refuse("dimension ", d, " has ", categories.size(), " categories in one block; give at most ",
             MOST_CUTS + 1, ", or a limit kernel");
  }
}

inline std::vector<int> check_list(const char* name, const std::vector<int64_t>& values,
                                   int64_t most) {
  check_all(name, values.data(), values.size(), 0.0, double(most),
            text("whole numbers from 0 to ", most).c_str());
  return {values.begin(), values.end()};
}

inline State check_state(const Gibbs& gibbs, const std::vector<int64_t>& z,
                         const std::vector<int64_t>& cuts, int64_t noise) {
  const Tiling& tiling = gibbs.tiling();
  const Prior& prior = gibbs.prior();
  const size_t dims = size_t(tiling.dims), numbers = dims * size_t(gibbs.cut_layers());
  if (z.size() != dims) refuse("z has ", z.size(), " labels; give ", dims, ", one a dimension");
  if (cuts.size() != numbers)
    refuse("cuts has ", cuts.size(), " numbers; give ", numbers, ", ", gibbs.cut_layers(),
           " a dimension");
  State state{check_list("z", z, int64_t(dims) - 1), check_list("cuts", cuts, tiling.max_cuts),
              check_whole("noise", noise, 0, int64_t(prior.noise.size()) - 1)};
  std::vector<int> size(dims);
  for (const int label : state.z)
    if (++size[size_t(label)] > prior.group_limit)
      refuse("z has label ", label, " more than ", prior.group_limit, " times; give groups of at ",
             "most group_limit = ", prior.group_limit, " dimensions");
  return state;
}

inline std::vector<int> check_candidates(const Gibbs& gibbs, int64_t d, int64_t layer,
                                         const std::vector<int64_t>& cuts) {
  check_whole("d", d, 0, gibbs.tiling().dims - 1);
  check_whole("layer", layer, 0, gibbs.cut_layers() - 1);
  check_whole("how many cuts there are", int64_t(cuts.size()), 0, Block::max_candidates);
  return check_list("cuts", cuts, gibbs.tiling().max_cuts);
}

inline void check_run(const Gibbs& gibbs, int64_t sweeps) {
  check_whole("sweeps", sweeps, 1, std::numeric_limits<int>::max());
  const double row = 4.0 * gibbs.tiling().dims * (1 + gibbs.cut_layers()) + 16.0;
  check_memory(double(sweeps) * row, "the states of ", sweeps, " sweeps");
}

}  // namespace ebo
