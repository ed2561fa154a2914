// What a point is worth, by the posterior mean and deviation there; acquisition.py says which is which.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace ebo {

constexpr double LOG_SQRT_2PI = 0.91893853320467274178;
constexpr double SQRT_HALF = 0.70710678118654752440;
constexpr double FAR = -5.0;  // below, chances are small differences: the fraction is exact there
constexpr int TERMS = 30;     // of the fraction, which need be no more from FAR on

inline double log_density(double u) { return -0.5 * u * u - LOG_SQRT_2PI; }
inline double chance(double u) { return 0.5 * std::erfc(-u * SQRT_HALF); }

// q of phi(t)/Phi(-t) = t + q, by its continued fraction 1/(t + 2/(t + 3/(t + ...
inline double excess(double t) {
  double q = 0.0;
  for (int k = TERMS; k > 0; --k) q = k / (t + q);
  return q;
}

// log(phi(u) + u Phi(u))
inline double log_improvement(double u) {
  if (u > FAR) return std::log(std::exp(log_density(u)) + u * chance(u));
  const double q = excess(-u);
  return log_density(u) + std::log(q / (q - u));
}

// log Phi(u)
inline double log_chance(double u) {
  if (u > 0.0) return std::log1p(-chance(-u));
  if (u > FAR) return std::log(chance(u));
  return log_density(u) - std::log(excess(-u) - u);
}

// u phi(u)/(2 Phi(u)) - log Phi(u)
inline double information(double u) {
  if (u > FAR) {
    const double below = log_chance(u);
    return 0.5 * u * std::exp(log_density(u) - below) - below;
  }
  const double q = excess(-u);
  return LOG_SQRT_2PI + std::log(q - u) + 0.5 * u * q;
}

enum class Acquisition { eta, upper_confidence, improvement, probability, entropy };

// What is aimed at, and the scale that posterior means and deviations come in.
struct Aim {
  Acquisition kind;
  double best, upper_bound, deviations;
  std::vector<double> maxima;  // samples, for the entropy
  double mean, scale;

  double worth(double m, double sd) const {
    m = mean + scale * m;
    sd *= scale;
    switch (kind) {
      case Acquisition::eta: return (m - upper_bound) / sd;
      case Acquisition::upper_confidence: return m + deviations * sd;
      case Acquisition::improvement: return std::log(sd) + log_improvement((m - best) / sd);
      case Acquisition::probability: return log_chance((m - best) / sd);
      case Acquisition::entropy: break;
    }
    double sum = 0.0;
    for (const double maximum : maxima) sum += information((maximum - m) / sd);
    return std::log(std::max(sum / double(maxima.size()), 1e-300));
  }
};

}  // namespace ebo
