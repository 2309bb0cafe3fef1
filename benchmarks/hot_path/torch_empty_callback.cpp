// SPDX-License-Identifier: Apache-2.0
// Lower bound for observing PyTorch's ops: callbacks that do nothing, registered by torch_ops.py.
#include <memory>

struct Context {
  virtual ~Context() = default;
};

extern "C" {
struct Callback {
  std::unique_ptr<Context> (*start)(const void*);
  void (*end)(const void*, Context*);
  double sampling_probability;
  bool scopes[10];
  bool needs[3];
};
static_assert(sizeof(Callback) == 40, "as in libtorch");

std::unique_ptr<Context> empty_start(const void*) {
  return nullptr;
}
void empty_end(const void*, Context*) {}

// Registers the callbacks. `inputs`: request inputs, so that libtorch boxes the arguments of every
// op.
unsigned long add_empty(unsigned long (*add_global_callback)(Callback), int inputs) {
  Callback callback{&empty_start, &empty_end, 1.0, {}, {inputs != 0}};
  for (bool& scope : callback.scopes) scope = true;
  return add_global_callback(callback);
}
}
