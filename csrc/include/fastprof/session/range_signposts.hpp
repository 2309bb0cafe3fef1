// SPDX-License-Identifier: Apache-2.0
// RangeSignposts: an interval of os_signpost for every range and RecordFunction, so that
// Instruments shows them beside the work of the GPU. Needs no session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// One for each library that includes it. Any thread; start() and stop() one at a time.
class RangeSignposts {
 public:
  // Starts signposts for all ranges that begin from now on, on all threads. signposts: must live as
  // long as the process. Raises StateError if they are started already, UnavailableError if the
  // system refuses to create the log.
  static void start(metal::Signposts& signposts) {
    if (handle_ != kInvalidCallbackHandle)
      raise<StateError>(
          "signposts of ranges are started already: call RangeSignposts::stop() first");
    if (!signposts.open(metal::SignpostLog::intervals))
      raise<UnavailableError>("the system created no log for signposts: trace none, or retry");
    __atomic_store_n(&signposts_, &signposts, __ATOMIC_RELEASE);  // partner: begin() and end()
    handle_ = add_global_callback(RecordFunctionCallback(&begin, &end));
  }
  // Stops signposts. Open ranges still end their intervals. No effect if not started.
  static void stop() {
    if (handle_ == kInvalidCallbackHandle) return;
    remove_callback(handle_);
    handle_ = kInvalidCallbackHandle;
  }

 private:
  struct Interval final : ObserverContext {
    explicit Interval(uint64_t signpost) : id(signpost) {}
    uint64_t id;
  };

  static std::unique_ptr<ObserverContext> begin(const RecordFunction& function) {
    metal::Signposts* const signposts = __atomic_load_n(&signposts_, __ATOMIC_ACQUIRE);
    if (!signposts->enabled(metal::SignpostLog::intervals)) return nullptr;
    const uint64_t id = signposts->make_id(metal::SignpostLog::intervals, nullptr);
    signposts->begin(metal::SignpostName::range, id, std::string(function.name()).c_str());
    return std::make_unique<Interval>(id);
  }
  static void end(const RecordFunction&, ObserverContext* context) {
    if (context == nullptr) return;
    __atomic_load_n(&signposts_, __ATOMIC_ACQUIRE)
        ->end(metal::SignpostName::range, static_cast<Interval*>(context)->id);
  }

  static inline metal::Signposts* signposts_ = nullptr;
  static inline CallbackHandle handle_ = kInvalidCallbackHandle;
};

FASTPROF_NAMESPACE_END
