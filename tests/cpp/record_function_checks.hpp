// SPDX-License-Identifier: Apache-2.0
// What tests of RecordFunction share: an observer that notes everything that its callbacks can
// query.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/fastprof.hpp"
#include "text_checks.hpp"

namespace record_function_checks {

using namespace fastprof;

struct FASTPROF_HIDDEN Seen {
  std::string name, overload;
  RecordScope scope = RecordScope::FUNCTION;
  std::vector<Value> inputs, outputs;
  std::vector<std::string> keys;
  size_t num_inputs = 0;
  int64_t sequence_number = -2, node_id = -2, debug_handle = -2;
  uint64_t thread_id = 0, forward_thread_id = 0, handle = 0;
  bool async = false;
};
inline std::vector<Seen> starts, ends;
inline int contexts = 0;

struct Context : ObserverContext {
  explicit Context(size_t i) : index(i) { ++contexts; }
  ~Context() override { --contexts; }
  size_t index;
};

inline Seen look(const RecordFunction& function) {
  Seen seen;
  seen.name = std::string(function.name());
  seen.overload = std::string(function.overload_name());
  seen.scope = function.scope();
  seen.inputs.assign(function.inputs().begin(), function.inputs().end());
  seen.outputs.assign(function.outputs().begin(), function.outputs().end());
  for (const NamedValue& value : function.kwinputs()) {
    seen.keys.emplace_back(value.name);
    seen.inputs.push_back(value.value);
  }
  seen.num_inputs = function.num_inputs();
  seen.sequence_number = function.sequence_number();
  seen.node_id = function.node_id();
  seen.debug_handle = function.debug_handle();
  seen.thread_id = function.thread_id();
  seen.forward_thread_id = function.forward_thread_id();
  seen.handle = function.handle();
  seen.async = function.is_async();
  return seen;
}
inline std::unique_ptr<ObserverContext> on_start(const RecordFunction& function) {
  starts.push_back(look(function));
  return std::make_unique<Context>(starts.size() - 1);
}
inline void on_end(const RecordFunction& function, ObserverContext* context) {
  ends.push_back(look(function));
  CHECK(context != nullptr);
  CHECK_EQ(starts[static_cast<Context*>(context)->index].name, ends.back().name);
}

// Registers the observer above for a test.
struct Observed {
  explicit Observed(RecordFunctionCallback callback = RecordFunctionCallback(on_start, on_end)) {
    starts.clear();
    ends.clear();
    handle = add_thread_local_callback(callback);
  }
  ~Observed() {
    remove_callback(handle);
    CHECK_EQ(contexts, 0);
  }
  CallbackHandle handle;
};
inline RecordFunctionCallback all() {
  return RecordFunctionCallback(on_start, on_end)
      .needs_inputs(true)
      .needs_outputs(true)
      .needs_ids(true);
}

}  // namespace record_function_checks
