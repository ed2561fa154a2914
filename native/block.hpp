// The data of one leaf, or one block of the pooled sampler, and the likelihoods of
// all states that differ from the current one in one variable.
//
// Kept between steps: the separations S_d of every dimension; for every group g what
// it keeps together, G_g, as one lane of a chunk of groups; and the total weight of
// all groups. The groups stand in slots 0 .. M - 1; the slot after them
// holds the empty group, which keeps everything.
//
// A step on dimension d first prepares
//   rest     what the other dimensions of d's group keep together (all, if there are none),
//   without  the total weight, with rest in the place of d's group: total + weight(rest AND S_d),
// after which, up to scale, the Gram matrix is
//   with d in group g:  without + offset - weight(G_g AND S_d)
//   with other cuts:    without + offset - weight(S'_d AND rest),
// which are the two forms of `Candidates`; the offset is the weight of all times the groups that
// come or go. What is decided for d changes rest, the offset and S_d only; its group and the total
// follow when d is settled, once for all decisions.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "buffer.hpp"
#include "kernels.hpp"
#include "separator.hpp"
#include "tiling.hpp"

namespace ebo {

// Memory for one evaluation; one per thread.
struct Workspace {
  Buffer<double> factor, pivots, whitened;
  Workspace(size_t elements, size_t rows) : factor(elements), pivots(rows), whitened(rows) {}
};

// Candidates that are evaluated together, from the first on, in double or in single precision.
struct Batch {
  static constexpr int most = 16;
  int first, width;
  bool rough;
};

// Their scalars; lanes that nobody asks for stay as they are here.
struct LaneScalars {
  double offset[Batch::most], scale[Batch::most], noise[Batch::most];
  LaneScalars() {
    std::fill_n(offset, Batch::most, 0.0);
    std::fill_n(scale, Batch::most, 1.0);
    std::fill_n(noise, Batch::most, 1.0);
  }
};

class Block {
 public:
  // Up to here a vector lane per candidate is faster than vectors along the rows
  // (measured: the two meet between n = 200 and 300).
  static constexpr int interleaved_limit = 224;
  static constexpr int max_candidates = 8;  // cuts that can be proposed at once

  // t is [n][dims], y is [n].
  Block(const Kernels& kernels, const Tiling& tiling, int n, const double* t, const double* y,
        Pause& pause)
      : kernels_(kernels),
        tiling_(tiling),
        pause_(pause),
        n_(n),
        words_(tiling.words()),
        mode_(n <= interleaved_limit ? 0 : 1),
        shape_(mode_ == 0 ? kernels.interleaved : kernels.single),
        group_lanes_(mode_ == 0 ? 2 * shape_.lanes : 1),
        cut_lanes_(mode_ == 0 ? max_candidates : 1),
        pairs_(pair_count(n, shape_.height)),
        y_(y, y + n),
        separator_(kernels, tiling, {cut_lanes_, shape_.height}, n, t, pause),
        full_(pairs_ * words_),
        rest_buffer_(pairs_ * words_),
        zero_(pairs_ * words_, 0),
        varying_(pairs_ * words_ * max_candidates),
        total_(pairs_),
        without_(pairs_) {
    for (int w = 0; w < words_; ++w) {
      if (tiling.is_limit())
        std::fill_n(reinterpret_cast<double*>(full_.data()), pairs_, 1.0);
      else
        std::fill_n(full_.data() + w * pairs_, pairs_, layer_mask(tiling.layers, w));
    }
    for (int d = 0; d < tiling.dims; ++d) separation_.emplace_back(pairs_ * words_);
    for (double value : y_) square_ += value * value;
  }

  // Bytes that so many points take at least.
  static double least_memory(const Tiling& tiling, int n) {
    const double arrays = tiling.dims * (tiling.is_limit() ? 2.0 : 1.0) + max_candidates + 3;
    return 0.5 * n * n * tiling.words() * arrays * sizeof(uint64_t);
  }

  // Adds what must be evaluated to know the candidates that are wanted.
  template <class Add>
  void plan(const std::vector<char>& wanted, bool rough, const Add& add) const {
    const int count = int(wanted.size()), width = shape_.lanes;
    const auto asked = [&](int first, int last) {
      return std::count(wanted.begin() + std::min(first, count),
                        wanted.begin() + std::min(last, count), 1);
    };
    const int step = rough ? 2 * width : width;
    for (int first = 0; first < count; first += step) {
      const auto here = asked(first, first + step), low = asked(first, first + width);
      if (here == 0) continue;
      if (rough && low > 0 && low < here) {
        add(Batch{first, step, true});
      } else if (rough) {  // one half is enough
        add(Batch{low > 0 ? first : first + width, width, true});
      } else if (4 * here > width) {
        add(Batch{first, width, false});
      } else {  // so few are better evaluated one by one (measured)
        for (int i = first; i < std::min(first + width, count); ++i)
          if (wanted[i]) add(Batch{i, 1, false});
      }
    }
  }

  // Whether single precision is good for a rough likelihood, under this noise variance. Its
  // Cholesky factorisation never fails if the least eigenvalue, over the diagonal, is above
  // n (n + 1) units of rounding (Demmel); here a factor of 2 is to spare. And a change of the
  // matrix whose norm is one such unit changes the misfit by at most 1: by |A^-1 y|^2 of them, which
  // is at most y'y / noise^2.
  // Nothing in this may depend on z or the cuts.
  bool can_be_rough(double noise) const {
    return mode_ == 0 && !tiling_.is_limit() && noise >= 0x1p-23 * n_ * (n_ + 1.0) &&
           square_ <= 0x1p24 * noise * noise;
  }

  // What its evaluations need of a workspace.
  size_t elements() const { return pairs_ * shape_.lanes; }
  size_t rows() const {
    return size_t(panel_count(n_, shape_.height)) * shape_.height * shape_.lanes;
  }

  // Start from these groups (the members of every slot) and cuts [dim][per_dim].
  void start(const std::vector<std::vector<int>>& members, const std::vector<int>& cuts,
             int per_dim) {
    for (int d = 0; d < tiling_.dims; ++d) {
      pause_.look();
      propose_cuts(d, &cuts[size_t(d) * per_dim], 1, per_dim);
      accept_cuts(d, 0);
    }
    std::fill_n(total_.data(), pairs_, 0);
    for (size_t g = 0; g < members.size(); ++g) {
      const Words& kept = keep(members[g], -1);
      add_weight(kept, full_, total_, total_);
      set_group(int(g), kept);
    }
    set_empty(int(members.size()));
  }

  // For a step on dimension d, which is one of these members of its group.
  void prepare(int d, const std::vector<int>& members) {
    rest_ = &keep(members, d);
    add_weight(*rest_, separation_[d], total_, without_);
  }

  // ---- groups ----------------------------------------------------------------------

  // d in each group of some slots.
  void group_likelihoods(int d, Batch batch, const LaneScalars& s, Workspace& w,
                         double* out) const {
    const uint64_t* groups = chunks_[batch.first / group_lanes_].data();
    evaluate(without_, groups + batch.first % group_lanes_, group_lanes_, separation_[d], batch, s,
             w, out);
  }

  // d's old group goes on without it.
  void leave(int slot) { set_group(slot, *rest_); }
  // d joins the group of these members.
  void join(const std::vector<int>& members) { rest_ = &keep(members, -1); }
  // The group of one slot goes to another and leaves an empty one behind.
  void move(int from, int to) {
    uint64_t *source = lane(from), *target = lane(to);
    for (size_t i = 0; i < full_.size(); ++i, source += group_lanes_, target += group_lanes_) {
      *target = *source;
      *source = full_[i];
    }
  }
  void set_empty(int slot) { set_group(slot, full_); }

  // ---- cuts ------------------------------------------------------------------------

  // Candidate cuts [count][per_candidate] of dimension d; see Separator.
  void propose_cuts(int d, const int* cuts, int count, int per_candidate) {
    for (int first = 0; first < count; first += cut_lanes_) {
      look();
      separator_.separate(d, cuts + size_t(first) * per_candidate,
                          std::min(cut_lanes_, count - first), per_candidate,
                          varying_.data() + first * pairs_ * words_);
    }
  }

  void cut_likelihoods(Batch batch, const LaneScalars& s, Workspace& w, double* out) const {
    evaluate(without_, proposed(batch.first), cut_lanes_, *rest_, batch, s, w, out);
  }

  void accept_cuts(int d, int candidate) {
    const uint64_t* from = proposed(candidate);
    for (size_t i = 0; i < full_.size(); ++i, from += cut_lanes_) separation_[d][i] = *from;
  }

  // What was decided for d, whose group is that of the slot.
  void settle(int d, int slot, double offset) {
    kernels_.settle[tiling_.similarity()](pairs_, words_, group_lanes_, rest_->data(),
                                          separation_[d].data(), without_.data(), offset,
                                          lane(slot), total_.data());
  }

  // ---- noise -----------------------------------------------------------------------

  // The current groups and cuts under several noise variances.
  void noise_likelihoods(Batch batch, const LaneScalars& s, Workspace& w, double* out) const {
    evaluate(total_, chunks_[0].data(), group_lanes_, zero_, batch, s, w, out);
  }

 private:
  using Words = Buffer<uint64_t>;  // bits, or the bits of doubles for a limit kernel

  // Before a pass over all pairs, if that may take a while.
  void look() const {
    if (n_ > interleaved_limit) pause_.look();
  }

  // `varying` is that of the batch's first candidate, `stride` how many it has side by side.
  void evaluate(const Words& total, const uint64_t* varying, int stride, const Words& fixed,
                Batch batch, const LaneScalars& s, Workspace& w, double* out) const {
    std::fill_n(out, Batch::most, 0.0);
    if (n_ == 0) return;
    const auto run = batch.rough ? kernels_.rough_log_likelihood[batch.width > shape_.lanes]
                     : kernels_.log_likelihood[tiling_.similarity()][batch.width > 1 ? 0 : 1];
    run({n_, words_, stride, total.data(), varying, fixed.data(), s.offset, s.scale, s.noise,
         y_.data(), w.factor.data(), w.pivots.data(), w.whitened.data(), out, &pause_});
    // Not a number where rounding made a pivot negative: no candidate for anybody.
    for (int i = 0; i < batch.width; ++i)
      if (!std::isfinite(out[i])) out[i] = -INFINITY;
  }

  void add_weight(const Words& a, const Words& b, const Words& base, Words& out) const {
    kernels_.add_weight[tiling_.similarity()](pairs_, words_, a.data(), b.data(), base.data(),
                                              out.data());
  }

  void remove(const Words& kept, const Words& apart, Words& out) const {
    kernels_.remove[tiling_.similarity()](pairs_ * words_, kept.data(), apart.data(), out.data());
  }

  // What the members but `except` keep together, in a buffer of this block's.
  const Words& keep(const std::vector<int>& members, int except) {
    const Words* kept = &full_;
    for (int d : members) {
      if (d == except) continue;
      look();
      remove(*kept, separation_[d], rest_buffer_);
      kept = &rest_buffer_;
    }
    return *kept;
  }

  // Where a slot's group begins; its words follow at a distance of the chunk's lanes.
  uint64_t* lane(int slot) { return chunks_[slot / group_lanes_].data() + slot % group_lanes_; }
  // The same of a candidate's separations.
  const uint64_t* proposed(int candidate) const {
    const size_t lanes = cut_lanes_, chunk = candidate / lanes;
    return varying_.data() + chunk * pairs_ * words_ * lanes + candidate % lanes;
  }

  void set_group(int slot, const Words& from) {
    const size_t lanes = group_lanes_;
    while (slot / lanes >= chunks_.size()) chunks_.emplace_back(pairs_ * words_ * lanes, 0);
    uint64_t* to = lane(slot);
    for (size_t i = 0; i < from.size(); ++i, to += lanes) *to = from[i];
  }

  const Kernels& kernels_;
  const Tiling& tiling_;
  Pause& pause_;
  const int n_, words_, mode_;
  const Shape shape_;
  const int group_lanes_, cut_lanes_;  // side by side in memory
  const size_t pairs_;
  const std::vector<double> y_;
  double square_ = 0.0;  // y'y
  Separator separator_;

  std::vector<Words> separation_;  // [dim]: S_d
  std::vector<Words> chunks_;      // [chunk of slots]: G_g, a lane each
  Words full_, rest_buffer_, zero_;
  const Words* rest_ = nullptr;
  Words varying_;  // [chunk of candidates]: S'_d, a lane each
  Words total_, without_;  // as floats for bits, as doubles for a limit kernel
};

}  // namespace ebo
