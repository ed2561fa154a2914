// Gibbs sampling of the groups z, the cuts k and the noise variance of a TileGP, with
// the mixing proportions theta and the rates lambda integrated out (Section 3.2).
//
// The likelihood is the sum over blocks: one block is a leaf of Alg. 1; several
// blocks share one z and one k (the pooled sampler).
//
// Whatever takes long can be ended by `Pause`, or by memory that is not there, at any place. The
// state is whole at all times; the blocks are then made anew from it before they are used again.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "block.hpp"
#include "team.hpp"

namespace ebo {

struct Prior {
  std::vector<double> alpha;     // Dirichlet, one for every group label
  double beta_rate, beta_shape;  // beta_0 and beta_1: lambda_d ~ Gamma(shape, rate)
  std::vector<double> widths;    // of the box: k_d ~ Poisson(lambda_d * width_d)
  int group_limit;               // most dimensions in a group
  std::vector<double> noise;     // variances, each as likely as the others; one: it is given
};

struct State {
  std::vector<int> z;     // [dim], labels
  std::vector<int> cuts;  // [dim][layer], or [dim][1] where all layers share them
  int noise = 0;          // index into the prior's variances
};

struct Counts {
  long candidates = 0;  // likelihoods asked for
  long group_steps = 0, group_changes = 0;
  long cut_steps = 0, cut_changes = 0;
  long sweeps = 0, rejections = 0;
};

class Gibbs {
 public:
  Gibbs(const Kernels& kernels, Tiling tiling, Prior prior, bool per_layer, int threads,
        Pause& pause)
      : kernels_(kernels),
        pause_(pause),
        tiling_(std::move(tiling)),
        prior_(std::move(prior)),
        dims_(tiling_.dims),
        cut_layers_(per_layer ? tiling_.layers : 1),
        full_(double(tiling_.layers)),
        team_(threads, pause) {
    for (int k = 0; k <= tiling_.max_cuts * cut_layers_; ++k)
      log_gamma_.push_back(std::lgamma(prior_.beta_shape + k));
    for (int k = 0; k <= tiling_.max_cuts; ++k) log_factorial_.push_back(std::lgamma(k + 1.0));
  }

  void add_block(int n, const double* t, const double* y) {
    if (started_) throw std::runtime_error("the sampler has started; add all blocks before");
    blocks_.emplace_back(std::make_unique<Block>(kernels_, tiling_, n, t, y, pause_));
    points_ += n;
    memory_ += Block::least_memory(tiling_, n);
  }

  void start(State state) {
    if (blocks_.empty()) throw std::runtime_error("the sampler has no blocks; add one before");
    state_ = std::move(state);
    started_ = true;
    whole_ = false;
    change([] {});
  }

  void sweep(std::mt19937_64& random, bool learn_cuts) {
    change([&] {
      ++counts_.sweeps;
      if (can_be_rough()) {
        rough_sweep(random, learn_cuts);
      } else {
        rough_log_likelihood_ = NAN;
        steps(random, learn_cuts, false);
      }
      if (prior_.noise.size() > 1) sample_noise(random);
    });
  }

  // Log-likelihoods with d in each slot of a group, and last in a group of its own.
  std::vector<double> group_likelihoods(int d, bool rough) {
    std::vector<double> all;
    ask(rough, [&] { all = group_likelihoods(d, std::vector<char>(members_.size() + 1, 1)); });
    return all;
  }

  // Log-likelihoods with each of some numbers of cuts.
  std::vector<double> cut_likelihoods(int d, int layer, const std::vector<int>& candidates,
                                      bool rough) {
    std::vector<double> all;
    ask(rough, [&] { all = cut_likelihoods(d, layer, candidates); });
    return all;
  }

  // The log-likelihood in single precision: a function of the state, however it was reached.
  double rough_log_likelihood() {
    ask(true, [&] { know_rough(); });
    return rough_log_likelihood_;
  }

  // Of all blocks, with all its constants.
  double log_likelihood() {
    change([] {});
    return log_likelihood_ - 0.5 * points_ * std::log(2.0 * M_PI);
  }

  // Whether sweeps are made in single precision, under the noise variance of the state.
  bool can_be_rough() const {
    if (!started_) throw std::runtime_error("the sampler has no state; call start before");
    return std::all_of(blocks_.begin(), blocks_.end(),
                       [&](const auto& block) { return block->can_be_rough(noise()); });
  }

  double memory() const { return memory_; }  // bytes that the blocks take at least
  const Tiling& tiling() const { return tiling_; }
  const Prior& prior() const { return prior_; }
  int cut_layers() const { return cut_layers_; }  // with cuts of their own
  const State& state() const { return state_; }
  const Counts& counts() const { return counts_; }
  const std::vector<int>& labels() const { return label_; }  // of the slots
  double noise() const { return prior_.noise[state_.noise]; }

 private:
  // Work that may end half way.
  template <class Work>
  void change(const Work& work) {
    if (!started_) throw std::runtime_error("the sampler has no state; call start before");
    if (!whole_) set_up();
    whole_ = false;
    work();
    whole_ = true;
  }

  // The same with likelihoods in single or double precision.
  template <class Work>
  void ask(bool rough, const Work& work) {
    if (rough && !can_be_rough())
      throw std::invalid_argument(
          "single precision is not enough: too little noise for these values, no layers, or a "
          "block of more than 224 points; give rough=False");
    change([&] {
      rough_ = rough;
      work();
      rough_ = false;
    });
  }

  // All but the state itself.
  void set_up() {
    members_.clear();
    label_.clear();
    slot_.assign(prior_.alpha.size(), -1);
    for (int d = 0; d < dims_; ++d) {
      int& slot = slot_[state_.z[d]];
      if (slot < 0) {
        slot = int(members_.size());
        members_.emplace_back();
        label_.push_back(state_.z[d]);
      }
      members_[slot].push_back(d);
    }
    size_t elements = 0, rows = 0;
    for (const auto& block : blocks_) {
      elements = std::max(elements, block->elements());
      rows = std::max(rows, block->rows());
    }
    workspaces_.clear();
    for (int i = 0; i < team_.size(); ++i) workspaces_.emplace_back(elements, rows);
    team_.run(int(blocks_.size()),
              [&](int b, int) { blocks_[b]->start(members_, state_.cuts, cut_layers_); });
    prepared_ = -1;
    unsettled_ = rough_ = false;
    log_likelihood_ = noise_likelihoods({state_.noise})[0];
    rough_log_likelihood_ = NAN;
  }

  // ---- z_d | rest, proportional to p(D | z, k) (|A_m| + alpha_m) ----------------------

  // Those not asked for (`wanted`) are NaN.
  std::vector<double> group_likelihoods(int d, const std::vector<char>& wanted) {
    prepare(d);
    const int groups = int(members_.size());
    const bool alone = members_[slot_[state_.z[d]]].size() == 1;
    const int others = alone ? groups - 1 : groups;
    return evaluate(
        wanted,
        [&](int slot, double* offset, double* scale) {
          const bool is_new = slot == groups;
          *offset = offset_ + (is_new ? full_ : 0.0) - (alone ? full_ : 0.0);
          *scale = 1.0 / (full_ * (others + is_new));
        },
        [&](Block& block, Batch batch, const LaneScalars& s, Workspace& w, double* out) {
          block.group_likelihoods(d, batch, s, w, out);
        });
  }

  // ---- k_dl | rest, proportional to p(D | z, k) Gamma(beta_1 + |k_d|) / ((beta_0 + L)^k k!) -

  std::vector<double> cut_likelihoods(int d, int layer, const std::vector<int>& candidates) {
    prepare(d);
    std::vector<int> cuts;
    cuts.reserve(candidates.size() * cut_layers_);
    for (int k : candidates)
      for (int l = 0; l < cut_layers_; ++l) cuts.push_back(l == layer ? k : cut(d, l));
    team_.run(int(blocks_.size()), [&](int b, int) {
      blocks_[b]->propose_cuts(d, cuts.data(), int(candidates.size()), cut_layers_);
    });
    const double scale_all = 1.0 / (full_ * double(members_.size()));
    return evaluate(
        std::vector<char>(candidates.size(), 1),
        [&](int, double* offset, double* scale) {
          *offset = offset_;
          *scale = scale_all;
        },
        [&](Block& block, Batch batch, const LaneScalars& s, Workspace& w, double* out) {
          block.cut_likelihoods(batch, s, w, out);
        });
  }

  // While likelihoods are rough.
  void know_rough() {
    if (std::isnan(rough_log_likelihood_))
      rough_log_likelihood_ = noise_likelihoods({state_.noise})[0];
  }

  // A window of values that holds the current one, drawn in such a way that sampling inside
  // it leaves the target as it is: the window is an auxiliary variable, and a value's weight
  // is its target density times the chance that it had drawn this window.
  struct Window {
    static constexpr int width = Block::max_candidates + 1;
    int first, last;  // inclusive
    int most;         // largest value there is

    Window(int current, int most_, std::mt19937_64& random) : most(most_) {
      const int raw = current - int(random() % uint64_t(width));
      first = std::max(0, std::min(raw, most - width + 1));
      last = std::min(most, first + width - 1);
    }
    // Of the raw firsts that a value may draw, those that end as this one: at the ends of the
    // range there are several.
    double log_chance(int value) const {
      const int low = first > 0 ? first : value - width + 1, high = last < most ? first : value;
      return std::log(double(high - low + 1));
    }
    std::vector<int> others(int current) const {
      std::vector<int> values;
      values.reserve(width);
      for (int v = first; v <= last; ++v)
        if (v != current) values.push_back(v);
      return values;
    }
  };

  int& cut(int d, int layer) { return state_.cuts[size_t(d) * cut_layers_ + layer]; }

  static double uniform(std::mt19937_64& random) {
    return (double(random() >> 11) + 0.5) * 0x1p-53;
  }

  // Index drawn in proportion to exp(log_weight): the largest after Gumbel noise.
  static int draw(const std::vector<double>& log_weight, std::mt19937_64& random) {
    int best = -1;
    double most = -INFINITY;
    for (size_t i = 0; i < log_weight.size(); ++i) {
      const double value = log_weight[i] - std::log(-std::log(uniform(random)));
      if (value > most) {
        most = value;
        best = int(i);
      }
    }
    if (best < 0)
      throw std::runtime_error(
          "no candidate has a finite likelihood; scale the values down, or give more noise");
    return best;
  }

  // Every z_d and k_dl once, in the order of dimensions and layers, or in just the reverse order.
  void steps(std::mt19937_64& random, bool learn_cuts, bool backwards) {
    for (int i = 0; i < dims_; ++i) {
      const int d = backwards ? dims_ - 1 - i : i;
      const int layers = learn_cuts && !tiling_.categorical[d] ? cut_layers_ : 0;
      if (!backwards) sample_group(d, random);
      for (int l = 0; l < layers; ++l) {
        sample_cuts(d, backwards ? layers - 1 - l : l, random);
        pause_.look();
      }
      if (backwards) sample_group(d, random);
      pause_.look();
    }
  }

  // The same steps with rough likelihoods q in the place of the exact p, as one proposal that is
  // accepted with probability min(1, p(x') q(x) / (p(x) q(x'))): a surrogate transition, which
  // keeps p if the steps together are reversible under q. Each is. One order of steps or its
  // reverse, whichever a coin says, makes them so together.
  void rough_sweep(std::mt19937_64& random, bool learn_cuts) {
    const State before = state_;
    const Counts counts = counts_;
    rough_ = true;
    know_rough();
    const double exact = log_likelihood_, rough = rough_log_likelihood_;
    try {
      log_likelihood_ = rough;
      steps(random, learn_cuts, random() & 1);
      rough_ = false;
      rough_log_likelihood_ = log_likelihood_;
      log_likelihood_ = noise_likelihoods({state_.noise})[0];
    } catch (...) {  // what is not decided yet is no state of the chain
      state_ = before;
      throw;
    }
    const double gain = (log_likelihood_ - exact) - (rough_log_likelihood_ - rough);
    if (std::log(uniform(random)) < gain) return;
    state_ = before;
    set_up();
    rough_log_likelihood_ = rough;
    ++counts_.rejections;
    counts_.group_changes = counts.group_changes;
    counts_.cut_changes = counts.cut_changes;
  }

  void prepare(int d) {
    if (prepared_ == d) return;
    settle();
    const auto& members = members_[slot_[state_.z[d]]];
    team_.run(int(blocks_.size()), [&](int b, int) { blocks_[b]->prepare(d, members); });
    prepared_ = d;
    offset_ = 0.0;
  }

  void settle() {
    if (!unsettled_) return;
    const int slot = slot_[state_.z[prepared_]];
    team_.run(int(blocks_.size()),
              [&](int b, int) { blocks_[b]->settle(prepared_, slot, offset_); });
    unsettled_ = false;
  }

  // Log-likelihoods, summed over the blocks, of the candidates that are wanted.
  template <class Scalars, class Evaluate>
  std::vector<double> evaluate(const std::vector<char>& wanted, const Scalars& scalars,
                               const Evaluate& of_batch, const double* noise = nullptr) {
    struct Task {
      int block;
      Batch batch;
    };
    std::vector<Task> tasks;
    const int count = int(wanted.size());
    for (int b = 0; b < int(blocks_.size()); ++b)
      blocks_[b]->plan(wanted, rough_, [&](Batch batch) { tasks.push_back({b, batch}); });
    std::vector<double> results(tasks.size() * Batch::most);
    team_.run(int(tasks.size()), [&](int i, int thread) {
      const auto [b, batch] = tasks[i];
      LaneScalars s;
      for (int lane = 0; lane < batch.width; ++lane) {
        const int candidate = batch.first + lane;
        if (candidate >= count || !wanted[candidate]) continue;
        scalars(candidate, &s.offset[lane], &s.scale[lane]);
        s.noise[lane] = noise ? noise[candidate] : this->noise();
      }
      of_batch(*blocks_[b], batch, s, workspaces_[thread], &results[size_t(i) * Batch::most]);
    });
    std::vector<double> sums(count);
    for (int c = 0; c < count; ++c) sums[c] = wanted[c] ? 0.0 : NAN;
    for (size_t i = 0; i < tasks.size(); ++i)  // in the order of blocks, whoever was first
      for (int lane = 0; lane < tasks[i].batch.width; ++lane) {
        const int candidate = tasks[i].batch.first + lane;
        if (candidate < count) sums[candidate] += results[i * Batch::most + lane];
      }
    counts_.candidates += std::count(wanted.begin(), wanted.end(), 1);
    return sums;
  }

  std::vector<double> noise_likelihoods(const std::vector<int>& candidates) {
    settle();
    const double scale_all = 1.0 / (full_ * double(members_.size()));
    std::vector<double> variances;
    for (int i : candidates) variances.push_back(prior_.noise[i]);
    return evaluate(
        std::vector<char>(candidates.size(), 1),
        [&](int, double* offset, double* scale) {
          *offset = 0.0;
          *scale = scale_all;
        },
        [](Block& block, Batch batch, const LaneScalars& s, Workspace& w, double* out) {
          block.noise_likelihoods(batch, s, w, out);
        },
        variances.data());
  }

  void sample_group(int d, std::mt19937_64& random) {
    const int groups = int(members_.size());
    const int from = slot_[state_.z[d]];
    const bool alone = members_[from].size() == 1;
    const int stay = alone ? groups : from;

    // Without d: what a group weighs, and last the empty group, which stands for all the
    // empty ones and carries the sum of their weights.
    std::vector<double> weight(groups + 1);
    for (int g = 0; g < groups; ++g) {
      const size_t size = members_[g].size() - (g == from);
      if (size > 0 && int(size) < prior_.group_limit) weight[g] = size + prior_.alpha[label_[g]];
    }
    const std::vector<int> empty = empty_labels(alone ? label_[from] : -1);
    for (int label : empty) weight[groups] += prior_.alpha[label];

    std::vector<char> wanted(groups + 1);
    for (int g = 0; g <= groups; ++g) wanted[g] = g != stay && weight[g] > 0.0;
    std::vector<double> likelihood = group_likelihoods(d, wanted);
    likelihood[stay] = log_likelihood_;
    std::vector<double> log_weight(groups + 1, -INFINITY);
    for (int g = 0; g <= groups; ++g)
      if (weight[g] > 0.0) log_weight[g] = likelihood[g] + std::log(weight[g]);

    const int to = draw(log_weight, random);
    ++counts_.group_steps;
    counts_.group_changes += to != stay;
    const int label = to < groups ? label_[to] : draw_label(empty, random);
    if (to != stay) {
      log_likelihood_ = likelihood[to];
      move(d, from, to, label);
    } else if (alone) {
      slot_[label_[from]] = -1;
      slot_[label] = from;
      label_[from] = state_.z[d] = label;
    }
  }

  void move(int d, int from, int to, int label) {
    const int groups = int(members_.size());
    const bool alone = members_[from].size() == 1, is_new = to == groups;
    const int last = groups - 1;
    team_.run(int(blocks_.size()), [&](int b, int) {
      Block& block = *blocks_[b];
      if (is_new) block.set_empty(groups + 1);
      if (!alone)
        block.leave(from);
      else if (from == last)
        block.set_empty(last);
      else
        block.move(last, from);  // the last group takes the slot that falls free
      block.join(is_new ? std::vector<int>{} : members_[to]);
    });
    offset_ += (is_new ? full_ : 0.0) - (alone ? full_ : 0.0);
    unsettled_ = true;
    if (is_new) {
      members_.emplace_back();
      label_.push_back(label);
      slot_[label] = to;
    }
    members_[to].push_back(d);
    auto& old = members_[from];
    old.erase(std::find(old.begin(), old.end(), d));
    state_.z[d] = label;
    if (alone) {
      slot_[label_[from]] = -1;
      if (from != last) {
        members_[from] = std::move(members_[last]);
        label_[from] = label_[last];
        slot_[label_[from]] = from;
      }
      members_.pop_back();
      label_.pop_back();
    }
  }

  void sample_cuts(int d, int layer, std::mt19937_64& random) {
    int& current = cut(d, layer);
    const Window window(current, tiling_.max_cuts, random);
    const std::vector<int> others = window.others(current);
    std::vector<double> likelihood = cut_likelihoods(d, layer, others);
    std::vector<int> values = others;
    values.push_back(current);
    likelihood.push_back(log_likelihood_);

    int rest = 0;  // |k_d| without this layer
    for (int l = 0; l < cut_layers_; ++l) rest += l == layer ? 0 : cut(d, l);
    const double width = prior_.widths[d];
    const double log_ratio = std::log(width / (prior_.beta_rate + cut_layers_ * width));
    std::vector<double> log_weight(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      log_weight[i] = likelihood[i] + window.log_chance(values[i]) +
                      log_gamma_[rest + values[i]] + values[i] * log_ratio -
                      log_factorial_[values[i]];

    const int chosen = draw(log_weight, random);
    ++counts_.cut_steps;
    if (values[chosen] == current) return;
    ++counts_.cut_changes;
    log_likelihood_ = likelihood[chosen];
    current = values[chosen];
    unsettled_ = true;
    team_.run(int(blocks_.size()), [&](int b, int) { blocks_[b]->accept_cuts(d, chosen); });
  }

  void sample_noise(std::mt19937_64& random) {
    const Window window(state_.noise, int(prior_.noise.size()) - 1, random);
    std::vector<int> values = window.others(state_.noise);
    std::vector<double> likelihood = noise_likelihoods(values);
    values.push_back(state_.noise);
    likelihood.push_back(log_likelihood_);
    std::vector<double> log_weight(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      log_weight[i] = likelihood[i] + window.log_chance(values[i]);
    const int chosen = draw(log_weight, random);
    if (values[chosen] == state_.noise) return;
    state_.noise = values[chosen];
    log_likelihood_ = likelihood[chosen];
    rough_log_likelihood_ = NAN;
  }

  std::vector<int> empty_labels(int also) const {
    std::vector<int> labels;
    labels.reserve(slot_.size());
    for (int label = 0; label < int(slot_.size()); ++label)
      if (slot_[label] < 0 || label == also) labels.push_back(label);
    return labels;
  }

  int draw_label(const std::vector<int>& labels, std::mt19937_64& random) const {
    std::vector<double> log_weight;
    for (int label : labels) log_weight.push_back(std::log(prior_.alpha[label]));
    return labels[draw(log_weight, random)];
  }

  const Kernels& kernels_;
  Pause& pause_;
  const Tiling tiling_;
  const Prior prior_;
  const int dims_, cut_layers_;
  const double full_;  // weight of a pair that is together on all layers
  std::vector<double> log_gamma_, log_factorial_;  // lgamma(beta_shape + k), lgamma(1 + k)
  Team team_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Workspace> workspaces_;  // [thread]
  double points_ = 0.0, memory_ = 0.0;

  State state_;
  bool started_ = false;                   // whether there is a state
  bool whole_ = false;                     // whether all the rest shows it
  std::vector<std::vector<int>> members_;  // [slot]
  std::vector<int> label_;                 // [slot]
  std::vector<int> slot_;                  // [label], -1: empty
  int prepared_ = -1;                      // the dimension that the blocks are prepared for
  double offset_ = 0.0;                    // by what was decided for it
  bool unsettled_ = false;                 // something was decided for it that they do not show
  bool rough_ = false;                     // whether likelihoods are evaluated in single precision
  double log_likelihood_ = 0.0;            // without its constant
  double rough_log_likelihood_ = NAN;      // the same of the same state; NAN: not known
  Counts counts_;
};

}  // namespace ebo
