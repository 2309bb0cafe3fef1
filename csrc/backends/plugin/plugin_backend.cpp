// SPDX-License-Identifier: Apache-2.0
// Collections of a device plug-in: see plugin_backend.hpp.
#include "backends/plugin/plugin_backend.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "backends/plugin/activity_builder.hpp"
#include "backends/plugin/plugin_call.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/json_escape.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {
namespace {

// Implementation of fastprof_activity_sink. The plug-in calls these functions, so no exception may
// leave them.
struct Sink {
  ActivityBuilder& builder;

  template <class Result, class Function>
  static Result guarded(void* state, Result failed, Function function) noexcept {
    ActivityBuilder& to = static_cast<Sink*>(state)->builder;
    try {
      return function(to);
    } catch (const std::exception&) {  // no memory
      to.dropped(1);
      return failed;
    }
  }

  static uint32_t queue(void* state, int32_t device, int64_t number, const char* name) {
    return guarded(state, FASTPROF_NO_INDEX,
                   [&](ActivityBuilder& to) { return to.queue(device, number, name); });
  }
  static uint32_t thread(void* state, int64_t thread_id, const char* name) {
    return guarded(state, FASTPROF_NO_INDEX,
                   [&](ActivityBuilder& to) { return to.thread(thread_id, name); });
  }
  static uint32_t kind(void* state, const fastprof_activity_kind* given) {
    return guarded(state, FASTPROF_NO_INDEX, [&](ActivityBuilder& to) {
      if (given == nullptr || given->size < sizeof *given || given->name == nullptr) {
        to.problem("the plug-in reported a kind of activities without a name, or of another size");
        return FASTPROF_NO_INDEX;
      }
      ReportedKind reported;
      reported.type = given->type;
      append_utf8(reported.name, given->name);
      const uint32_t count = given->argument_count;
      if (count != 0 && (given->argument_names == nullptr || given->argument_types == nullptr)) {
        to.problem("the plug-in reported arguments without names or types");
        return FASTPROF_NO_INDEX;
      }
      for (uint32_t i = 0; i < count && i <= kMaxArgs; ++i) {
        if (given->argument_names[i] == nullptr ||
            given->argument_types[i] > FASTPROF_ARGUMENT_BOOL) {
          to.problem("the plug-in reported an argument without a name, or of an unknown type");
          return FASTPROF_NO_INDEX;
        }
        append_utf8(reported.argument_names.emplace_back(), given->argument_names[i]);
        reported.argument_types.push_back(static_cast<ArgType>(given->argument_types[i]));
      }
      return to.kind(std::move(reported));
    });
  }
  static uint32_t text(void* state, const char* json) {
    return guarded(state, FASTPROF_NO_INDEX,
                   [&](ActivityBuilder& to) { return to.text(json != nullptr ? json : ""); });
  }
  static size_t add(void* state, const fastprof_activity* activities, size_t count) {
    size_t accepted = 0;
    for (size_t i = 0; activities != nullptr && i < count; ++i)
      accepted += guarded(state, size_t{0}, [&](ActivityBuilder& to) {
        return static_cast<size_t>(to.add(activities[i]));
      });
    return accepted;
  }
  static void dropped(void* state, uint64_t count) {
    static_cast<Sink*>(state)->builder.dropped(count);
  }
  static void problem(void* state, const char* text) {
    guarded(state, 0, [&](ActivityBuilder& to) {
      std::string clean;
      append_utf8(clean, text != nullptr ? text : "a problem without a text");
      to.problem(std::move(clean));
      return 0;
    });
  }
};

}  // namespace

PluginBackend::OfProcess& PluginBackend::mine() {
  const pid_t pid = ::getpid();
  OfProcess* known = process_.load(std::memory_order_acquire);
  while (known == nullptr || known->pid != pid) {
    // The parent's object is not freed: its lock may be held.
    auto* fresh = new OfProcess(pid);
    if (process_.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *known;
}

std::string PluginBackend::fork_problem() {
  if ((plugin_.flags & FASTPROF_DEVICE_FORK_SAFE) != 0 || ::getpid() == loaded_in_) return {};
  return "its plug-in cannot be used in a forked child: start the child with the method spawn";
}

std::string PluginBackend::problem() {
  if (std::string reason = fork_problem(); !reason.empty()) return reason;
  if (plugin_.usable == nullptr) return {};
  const std::lock_guard<std::mutex> hold(mine().lock);
  fastprof_reason reason = {};
  std::string thrown;
  int usable = 0;
  if (!call_plugin([&] { usable = plugin_.usable(plugin_.self, &reason); }, thrown)) return thrown;
  return usable != 0 ? std::string() : text_of(reason, "its plug-in gives no reason");
}

uint64_t PluginBackend::begin(const devices::CollectionRequest& request) {
  const auto fail = [this](const std::string& why) {
    raise<UnavailableError>("work on " + name() + " cannot be collected: " + why);
  };
  if (const std::string reason = fork_problem(); !reason.empty()) fail(reason);
  OfProcess& process = mine();
  const std::lock_guard<std::mutex> hold(process.lock);
  Collection collection;
  collection.types = types_of(request.types, plugin_.device_type);
  collection.annotates = std::find(request.types.begin(), request.types.end(),
                                   "gpu_user_annotation") != request.types.end();
  collection.host_begin = read_host_clocks();
  fastprof_reason reason = {};
  std::string thrown;
  if (!call_plugin(
          [&] {
            collection.begin = read_clocks();
            collection.token = plugin_.begin(plugin_.self, collection.types, &reason);
          },
          thrown))
    fail(thrown);
  if (collection.token == 0) fail(text_of(reason, "its plug-in gives no reason"));
  process.collections.emplace(++process.last, collection);
  return process.last;
}

Activities PluginBackend::end(uint64_t number, std::vector<std::string>& problems) {
  OfProcess& process = mine();
  const std::lock_guard<std::mutex> hold(process.lock);
  const auto at = process.collections.find(number);
  if (at == process.collections.end())
    raise<StateError>("this collection of " + name() +
                      " activities has ended already, or belongs to the parent process");
  const Collection collection = at->second;
  process.collections.erase(at);
  ActivityBuilder builder(device_kind_, plugin_.device_type, collection.types);
  Sink to{builder};
  const fastprof_activity_sink sink = {sizeof(fastprof_activity_sink),
                                       &to,
                                       &Sink::queue,
                                       &Sink::thread,
                                       &Sink::kind,
                                       &Sink::text,
                                       &Sink::add,
                                       &Sink::dropped,
                                       &Sink::problem};
  fastprof_reason reason = {};
  std::string thrown;
  int failed = 0;
  Readings until;
  const bool returned = call_plugin(
      [&] {
        failed = plugin_.end(plugin_.self, collection.token, &sink, &reason);
        until = read_clocks();
      },
      thrown);
  if (!returned) {
    builder.problem("the end of its collection failed, so that work may be missing: " + thrown);
    // Without a second reading, the clocks' nominal rates are used.
    until = collection.begin;
    until.calls.ticks = ticks(state());
  } else if (failed != 0) {
    builder.problem("the end of its collection failed, so that work may be missing: " +
                    text_of(reason, "its plug-in gives no reason"));
  }
  const double rate = ticks_per_ns(collection.host_begin, read_host_clocks());
  const ClockLines clocks{line(plugin_.clock, collection.begin.work, until.work, rate),
                          line(plugin_.call_clock, collection.begin.calls, until.calls, rate)};
  Activities activities =
      builder.take(clocks, collection.begin.work.ticks, until.calls.ticks, rate, problems);
  activities.annotates = collection.annotates;
  return activities;
}

void PluginBackend::abandon(uint64_t number) noexcept {
  OfProcess& process = mine();
  const std::lock_guard<std::mutex> hold(process.lock);
  const auto at = process.collections.find(number);
  if (at == process.collections.end()) return;
  const uint64_t token = at->second.token;
  process.collections.erase(at);
  std::string thrown;
  call_plugin([&] { plugin_.abandon(plugin_.self, token); }, thrown);
}

PluginBackend::Readings PluginBackend::read_clocks() const {
  Readings readings;
  readings.work = read_clock(plugin_.clock);
  readings.calls = read_clock(plugin_.call_clock);
  return readings;
}

ClockReading PluginBackend::read_clock(uint32_t clock) const {
  return read_both_clocks([this, clock]() -> uint64_t {
    switch (clock) {
      case FASTPROF_CLOCK_MONOTONIC:
        return static_cast<uint64_t>(platform::monotonic_ns());
      case FASTPROF_CLOCK_REALTIME:
        return static_cast<uint64_t>(platform::unix_ns());
      case FASTPROF_CLOCK_OWN:
        return plugin_.read_clock(plugin_.self);
      default:
        return ticks(state());
    }
  });
}

ClockLine PluginBackend::line(uint32_t clock, ClockReading from, ClockReading until,
                              double ticks_per_ns) const {
  if (clock == FASTPROF_CLOCK_TICKS) return {};
  const bool own = clock == FASTPROF_CLOCK_OWN;
  const double hz = own && plugin_.clock_hz > 0 ? plugin_.clock_hz : 1e9;
  return ClockLine::between(from, until, ticks_per_ns, hz);
}

}  // namespace plugins
FASTPROF_NAMESPACE_END
