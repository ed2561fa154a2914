// A few threads that run numbered tasks together; which thread runs which task
// never shows in the results, because every task writes to its own place.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "pause.hpp"

namespace ebo {

class Team {
 public:
  Team(int threads, Pause& pause) : pause_(pause) {
    helpers_.reserve(threads - 1);
    try {
      while (size() < threads) helpers_.emplace_back(&Team::serve, this, size());
    } catch (const std::exception&) {
      // The system gives no more. Half of what it gave is let go, for there must be memory left.
      keep(helpers_.size() / 2);
    }
  }
  ~Team() { keep(0); }
  int size() const { return int(helpers_.size()) + 1; }

  // task(number, thread) for every number below `count`. If one throws, no other is begun, and this
  // throws the same when all that were begun have ended.
  template <class Task>
  void run(int count, const Task& task) {
    if (helpers_.empty() || count < 2) {
      for (int i = 0; i < count; ++i) one(task, i, 0);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      task_ = std::cref(task);
      count_ = count;
      next_ = 0;
      busy_ = int(helpers_.size());
      ++round_;
    }
    wake_.notify_all();
    work(0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  static constexpr int SOME = 16;  // tasks, after which a thread looks up

  template <class Task>
  void one(const Task& task, int i, int thread) {
    if (i % SOME == SOME - 1) pause_.look();
    task(i, thread);
  }
  void work(int thread) {
    try {
      for (int i = next_++; i < count_; i = next_++) one(task_, i, thread);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (thread == 0 || !failure_) failure_ = std::current_exception();
      next_ = count_;
    }
  }
  void serve(int thread) {
    for (long seen = 0;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return thread > kept_ || round_ != seen; });
        if (thread > kept_) return;
        seen = round_;
      }
      work(thread);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }
  // The first helpers only; the others end.
  void keep(size_t count) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      kept_ = int(count);
    }
    wake_.notify_all();
    for (size_t i = count; i < helpers_.size(); ++i) helpers_[i].join();
    helpers_.erase(helpers_.begin() + long(count), helpers_.end());
  }

  Pause& pause_;
  std::vector<std::thread> helpers_;  // numbered from 1 on: 0 is who calls `run`
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void(int, int)> task_;
  std::atomic<int> next_{0};
  int count_ = 0, busy_ = 0;
  int kept_ = 1 << 30;  // the last helper that goes on
  long round_ = 0;
  std::exception_ptr failure_;
};

}  // namespace ebo
