// A few threads that run numbered tasks together; which thread runs which task
// never shows in the results, because every task writes to its own place.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ebo {

class Team {
 public:
  explicit Team(int threads) {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { serve(i); });
  }
  ~Team() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& helper : helpers_) helper.join();
  }
  int size() const { return int(helpers_.size()) + 1; }

  // task(number, thread) for every number below `count`.
  template <class Task>
  void run(int count, const Task& task) {
    if (helpers_.empty() || count < 2) {
      for (int i = 0; i < count; ++i) task(i, 0);
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
  }

 private:
  void work(int thread) {
    for (int i = next_++; i < count_; i = next_++) task_(i, thread);
  }
  void serve(int thread) {
    for (long seen = 0;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || round_ != seen; });
        if (stop_) return;
        seen = round_;
      }
      work(thread);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void(int, int)> task_;
  std::atomic<int> next_{0};
  int count_ = 0, busy_ = 0;
  long round_ = 0;
  bool stop_ = false;
};

}  // namespace ebo
