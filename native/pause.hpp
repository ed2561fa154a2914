// Where long work looks up, to see whether it is still wanted.
#pragma once

namespace ebo {

class Pause {
 public:
  // Often and from any thread; throws where the work is to end.
  virtual void look() = 0;

 protected:
  ~Pause() = default;
};

}  // namespace ebo
