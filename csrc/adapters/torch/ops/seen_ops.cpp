// SPDX-License-Identifier: Apache-2.0
// A thread-local callback that stores what it reads: see seen_ops.hpp.
#include "adapters/torch/ops/seen_ops.hpp"

#include <memory>
#include <mutex>
#include <optional>

#include "adapters/torch/layout/op_name.hpp"
#include "adapters/torch/ops/op_observer.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// State of the observe() in progress.
std::vector<SeenOp>* g_seen = nullptr;
std::optional<Prepared> g_prepared;

// Reads the name by the layout as the observer does, but with checked access.
std::string name_of(const RecordFunctionView& record_function) {
  const uint32_t at = g_prepared->layout.name;
  if (at == 0) return g_prepared->functions->name(&record_function);
  return read_name_checked(record_function, at).value_or("(unreadable name)");
}

std::unique_ptr<ObserverContextView> start_seen(const RecordFunctionView& record_function) {
  const void* rf = &record_function;
  const Layout& layout = g_prepared->layout;
  g_seen->push_back({name_of(record_function), field<uint8_t>(rf, layout.scope),
                     field<int64_t>(rf, layout.sequence_nr), field<uint64_t>(rf, layout.thread_id),
                     field<uint64_t>(rf, layout.forward_thread_id)});
  return nullptr;
}

}  // namespace

Observed observe(const std::function<void()>& work) {
  static std::mutex one;
  // Does not wait: the holder may wait for something that the caller holds, such as the GIL.
  const std::unique_lock<std::mutex> hold(one, std::try_to_lock);
  if (!hold.owns_lock())
    raise<StateError>("another thread is running the self-test of ops. Try again.");
  g_prepared = prepared();
  if (!g_prepared) raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  const Functions* functions = g_prepared->functions;
  Observed result{{}, functions->current_thread_id()};
  g_seen = &result.ops;
  const ThreadCallback observing(*functions, callback_for_all(&start_seen, nullptr, false));
  work();
  return result;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
