// SPDX-License-Identifier: Apache-2.0
// The callbacks that report ops as intervals: see op_intervals.hpp.
#include "adapters/torch/ops/op_intervals.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "adapters/torch/layout/record_function_layout.hpp"
#include "adapters/torch/ops/op_observer.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Set before the callback is registered, and kept after its removal, for ops that end later.
OpIntervals g_intervals;
const Functions* g_functions = nullptr;
uint64_t g_callback = 0;  // 0: not registered

std::mutex g_intervals_lock;

struct Interval final : ObserverContextView {
  explicit Interval(uint64_t number) : id(number) {}
  const uint64_t id;
};

std::unique_ptr<ObserverContextView> begin(const RecordFunctionView& record_function) noexcept {
  const char* name = g_functions->name(&record_function);
  const uint64_t id = g_intervals.begin(name != nullptr ? name : "");
  if (id == 0) return nullptr;
  std::unique_ptr<ObserverContextView> context(new (std::nothrow) Interval(id));
  if (context == nullptr) g_intervals.end(id);  // no memory: the interval is empty
  return context;
}

void end(const RecordFunctionView&, ObserverContextView* context) noexcept {
  if (context != nullptr) g_intervals.end(static_cast<Interval*>(context)->id);
}

}  // namespace

void start_op_intervals(const OpIntervals& intervals) {
  static ChildHandler handler;
  handler.install([] { renew_lock(g_intervals_lock); });
  const std::lock_guard<std::mutex> hold(g_intervals_lock);
  if (g_callback != 0) raise<StateError>("ops are being reported as intervals already");
  const std::optional<Prepared> torch = prepared();
  if (!torch) raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  g_intervals = intervals;
  g_functions = torch->functions;
  g_callback = g_functions->add_global_callback(callback_for_all(&begin, &end, false));
}

void stop_op_intervals() noexcept {
  const std::lock_guard<std::mutex> hold(g_intervals_lock);
  if (g_callback == 0) return;
  g_functions->remove_callback(g_callback);
  g_callback = 0;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
