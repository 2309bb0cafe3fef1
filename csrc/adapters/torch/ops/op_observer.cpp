// SPDX-License-Identifier: Apache-2.0
// Registers the callbacks with libtorch: see op_observer.hpp.
#include "adapters/torch/ops/op_observer.hpp"

#include <mutex>
#include <optional>

#include "adapters/torch/inputs/input_proof.hpp"
#include "adapters/torch/layout/self_test.hpp"
#include "adapters/torch/ops/collective_metadata.hpp"
#include "adapters/torch/ops/op_callbacks.hpp"
#include "adapters/torch/ops/overload_sites.hpp"
#include "adapters/torch/ops/thread_numbers.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// libtorch's layout; valid once prepared.
Layout g_layout{};

std::unique_ptr<ObserverContextView> start_nothing(const RecordFunctionView&) noexcept {
  return nullptr;
}

struct Observers {
  std::mutex lock;
  const Functions* functions = nullptr;  // set once prepared
  uint64_t count = 0;
  uint64_t handle = 0;
  bool handle_has_inputs = false;
  uint64_t inputs_count = 0;   // number of users with inputs
  uint64_t inputs_handle = 0;  // a callback that only requests inputs, if `handle` does not
};
Observers& observers() noexcept {
  static Observers& all = *new Observers;
  return all;
}

}  // namespace

std::string prepare(std::string_view version, bool cxx11_abi, const Layout* given) {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions != nullptr) return {};
  const Layout* layout = given != nullptr ? given : find_layout(version, cxx11_abi);
  if (layout == nullptr)
    return "this version of fastprof has no layout for torch " + std::string(version) +
           (cxx11_abi ? "" : " with the older string ABI") + ", only for " + known_versions() +
           ". Install one of these, or a newer fastprof.";
  const char* why = nullptr;
  const Functions* functions = find_functions(&why);
  if (functions != nullptr) why = self_test(*functions, *layout);
  if (why != nullptr)
    return "the layout of torch " + std::string(version) +
           " differs from that of the official build (" + why +
           "). Install an official build of torch.";
  g_layout = *layout;
  prepare_callbacks(*functions, *layout);
  prepare_collective_metadata();
  all.functions = functions;
  return {};
}

std::optional<Prepared> prepared() {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr) return std::nullopt;
  return Prepared{all.functions, g_layout};
}

void start_observing(bool inputs) {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr)
    raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  if (inputs && trusted_encoder() == nullptr)
    raise<StateError>(
        "inputs of torch ops cannot be read before adopt_input_layout() has succeeded");
  const auto add = all.functions->add_global_callback;
  if (all.count++ == 0) {
    const bool known = inputs && trusted_source_is_known();
    all.handle =
        add(callback_for_all(known ? &start_op_with_known_inputs : &start_op, &end_op, inputs));
    all.handle_has_inputs = inputs;
  }
  if (!inputs || all.inputs_count++ != 0) return;
  // libtorch passes inputs to all callbacks if any of them requests inputs.
  if (!all.handle_has_inputs)
    all.inputs_handle = add(callback_for_all(&start_nothing, nullptr, true));
  store_relaxed(&g_op_view.encode_inputs, encoder_by_wants());
  want_with_ops(op_extra::inputs, true);
}

void stop_observing(bool inputs) noexcept {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.count == 0) return;
  if (inputs && --all.inputs_count == 0) {
    want_with_ops(op_extra::inputs, false);
    if (all.inputs_handle != 0) all.functions->remove_callback(all.inputs_handle);
    all.inputs_handle = 0;
  }
  if (--all.count != 0) return;
  all.functions->remove_callback(all.handle);
}

void forget_observers_in_child() noexcept {
  // The lock is reinitialised: another thread of the parent may have held it, and does not exist
  // here.
  Observers& all = observers();
  renew_lock(all.lock);
  forget_thread_numbers_in_child();
  forget_tracks_in_child();
  renew_overload_sites_in_child();
  if (all.count == 0) return;
  all.count = all.inputs_count = 0;
  want_with_ops(op_extra::inputs, false);
  if (all.inputs_handle != 0) all.functions->remove_callback(all.inputs_handle);
  all.inputs_handle = 0;
  all.functions->remove_callback(all.handle);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
