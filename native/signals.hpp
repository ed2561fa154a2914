// Ctrl-C, and whatever else Python has handlers for, in the middle of long work.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "pause.hpp"

namespace ebo {

// Asks Python ten times a second, in the thread that called; asking at every look would cost. If
// Python says no, the other threads of the work end where they look next.
class Signals final : public Pause {
 public:
  Signals() { begin(); }

  // For each call by itself.
  void begin() {
    caller_ = std::this_thread::get_id();
    last_ = clock::now();
    ended_ = false;
  }

  void look() override {
    if (std::this_thread::get_id() != caller_) {
      if (ended_) throw Ended();
      return;
    }
    const auto now = clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    nanobind::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() == 0) return;
    ended_ = true;
    throw nanobind::python_error();
  }

 private:
  using clock = std::chrono::steady_clock;
  struct Ended {};  // what the caller throws is what Python sees

  std::thread::id caller_;
  clock::time_point last_;
  std::atomic<bool> ended_{false};
};

}  // namespace ebo
