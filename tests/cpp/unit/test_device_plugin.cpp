// SPDX-License-Identifier: Apache-2.0
// Device plug-ins in one process: clocks, collections from many threads, forked children, faults,
// and the exclusive profiler.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "backends/plugin/plugin_library.hpp"
#include "core/device_backend.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/session/clock_line.hpp"
#include "recorder_checks.hpp"
#include "text_checks.hpp"

using namespace recorder_checks;
using text_checks::message_of;

namespace {

// A device whose collections contain one kernel and the call that launched it. What it does wrong
// is set by the tests.
struct Device {
  uint32_t clock = FASTPROF_CLOCK_TICKS;
  bool throws = false;
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> open{0};
  uint64_t last = 0;
  std::string reported;

  // Its own clock: a third of nanoseconds, from another origin.
  static uint64_t own_clock() {
    return static_cast<uint64_t>(fp::clock_ns(CLOCK_MONOTONIC)) / 3 + 12345;
  }
  uint64_t now() const {
    switch (clock) {
      case FASTPROF_CLOCK_MONOTONIC:
        return static_cast<uint64_t>(fp::clock_ns(CLOCK_MONOTONIC));
      case FASTPROF_CLOCK_REALTIME:
        return static_cast<uint64_t>(fp::clock_ns(CLOCK_REALTIME));
      case FASTPROF_CLOCK_OWN:
        return own_clock();
      default:
        return fp::ticks(fp::state());
    }
  }
};

Device& device_of(void* self) {
  return *static_cast<Device*>(self);
}

// Notes calls that run beside each other.
struct Alone {
  explicit Alone(Device& of) : device(of) {
    if (++device.inside > 1) ++device.overlaps;
  }
  ~Alone() { --device.inside; }
  Device& device;
};

uint64_t begin(void* self, uint32_t, fastprof_reason*) {
  Device& device = device_of(self);
  const Alone alone(device);
  ++device.open;
  return ++device.last;
}

int end(void* self, uint64_t collection, const fastprof_activity_sink* sink,
        fastprof_reason* reason) {
  Device& device = device_of(self);
  const Alone alone(device);
  --device.open;
  if (device.throws) throw std::runtime_error("lost");
  fastprof_activity_kind kind = {};
  kind.size = sizeof kind;
  kind.name = "kernel";
  kind.type = FASTPROF_ACTIVITY_KERNEL;
  fastprof_activity activity = {};
  activity.kind = sink->kind(sink->state, &kind);
  activity.place = sink->queue(sink->state, 0, static_cast<int64_t>(collection), nullptr);
  activity.text = FASTPROF_NO_INDEX;
  activity.end = device.now();
  activity.begin = activity.end - 1;
  CHECK_EQ(sink->add(sink->state, &activity, 1), size_t{1});
  std::strcpy(reason->text, "unused");
  return 0;
}

void abandon(void* self, uint64_t) {
  const Alone alone(device_of(self));
  --device_of(self).open;
}

uint64_t read_clock(void*) {
  return Device::own_clock();
}

// A plug-in that is never destroyed, as its interface demands.
fastprof_device_plugin& new_plugin(const char* name, Device& device) {
  static auto* const all = new std::vector<std::unique_ptr<fastprof_device_plugin>>;
  all->push_back(std::make_unique<fastprof_device_plugin>());
  fastprof_device_plugin* const plugin = all->back().get();
  plugin->size = sizeof *plugin;
  plugin->major = FASTPROF_DEVICE_PLUGIN_MAJOR;
  plugin->name = name;
  plugin->device_type = 20;
  plugin->clock = device.clock;
  plugin->self = &device;
  plugin->begin = begin;
  plugin->end = end;
  plugin->abandon = abandon;
  if (device.clock == FASTPROF_CLOCK_OWN) {
    plugin->read_clock = read_clock;
    plugin->clock_hz = 1e9 / 3;
  }
  return *plugin;
}

fp::devices::DeviceBackend& registered(const fastprof_device_plugin& plugin) {
  fp::plugins::add_plugin(&plugin);
  return *fp::devices::find_backend(plugin.name);
}

const fp::devices::CollectionRequest kAll{{"kernel", "privateuse1_runtime"}};

}  // namespace

TEST(stamps_of_every_clock_become_ticks) {
  const char* const names[] = {"of_ticks", "of_monotonic", "of_realtime", "of_own"};
  for (uint32_t clock = FASTPROF_CLOCK_TICKS; clock <= FASTPROF_CLOCK_OWN; ++clock) {
    auto* const device = new Device;
    device->clock = clock;
    fp::devices::DeviceBackend& backend = registered(new_plugin(names[clock], *device));
    // The second is too short for a line through two readings.
    for (const int sleep_us : {20000, 0}) {
      std::vector<std::string> problems;
      const uint64_t collection = backend.begin(kAll);
      ::usleep(static_cast<useconds_t>(sleep_us));
      const uint64_t before = fp::ticks(fp::state());
      const fp::Activities found = backend.end(collection, problems);
      const uint64_t after = fp::ticks(fp::state());
      CHECK(problems.empty());
      CHECK_EQ(found.rows.size(), size_t{1});
      const uint64_t at = found.rows[0].end;
      const uint64_t slack = (after - before) * 20 + 100000;
      CHECK(at + slack > before && at < after + slack);
      fp::check_activities(found);
      CHECK_EQ(found.places[0].device_kind, std::string(names[clock]));
    }
  }
}

TEST(collections_of_many_threads_end_in_any_order) {
  auto* const device = new Device;
  fp::devices::DeviceBackend& backend = registered(new_plugin("shared", *device));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&backend, &wrong] {
      for (int i = 0; i < 100; ++i) {
        std::vector<std::string> problems;
        const uint64_t first = backend.begin(kAll), second = backend.begin(kAll);
        const uint64_t third = backend.begin(kAll);
        wrong += backend.end(second, problems).rows.size() != 1;
        backend.abandon(third);
        backend.abandon(third);  // no effect
        wrong += backend.end(first, problems).rows.size() != 1;
        wrong += message_of<fp::Error>([&] { backend.end(first, problems); }).empty();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(device->open.load(), 0);
  CHECK_EQ(device->overlaps.load(), 0);
}

TEST(a_forked_child_calls_nothing_unless_it_may) {
  auto* const plain = new Device;
  fp::devices::DeviceBackend& refused = registered(new_plugin("not_forked", *plain));
  auto* const safe = new Device;
  fastprof_device_plugin& forked = new_plugin("forked", *safe);
  forked.flags = FASTPROF_DEVICE_FORK_SAFE;
  fp::devices::DeviceBackend& accepted = registered(forked);
  const uint64_t of_refused = refused.begin(kAll), of_accepted = accepted.begin(kAll);
  const int status = in_child([&]() -> int {
    std::vector<std::string> problems;
    int faults = 0;
    faults += refused.problem().find("spawn") == std::string::npos;
    faults +=
        message_of<fp::Error>([&] { refused.begin(kAll); }).find("spawn") == std::string::npos;
    refused.abandon(of_refused);  // the parent's
    faults += message_of<fp::Error>([&] { accepted.end(of_accepted, problems); }).empty();
    faults += !accepted.problem().empty();
    faults += accepted.end(accepted.begin(kAll), problems).rows.size() != 1;
    faults += plain->open != 1;
    ::_exit(faults);  // not exit(): what the parent has made is no leak of the child
  });
  CHECK_EQ(status, 0);
  std::vector<std::string> problems;
  CHECK_EQ(refused.end(of_refused, problems).rows.size(), size_t{1});
  CHECK_EQ(accepted.end(of_accepted, problems).rows.size(), size_t{1});
}

TEST(devices_of_two_kinds_have_tracks_of_their_own) {
  Running session;
  auto* const one = new Device;
  auto* const other = new Device;
  for (fp::devices::DeviceBackend* backend :
       {&registered(new_plugin("kind_one", *one)), &registered(new_plugin("kind_two", *other))}) {
    std::vector<std::string> problems;
    session.add_activities(backend->end(backend->begin(kAll), problems));
  }
  const fp::Capture& capture = session.stop();
  std::vector<std::string> devices;
  for (const fp::TrackInfo& track : capture.tracks)
    if (track.is_device())
      devices.push_back(track.device_kind + " " + std::to_string(track.pid) + " " +
                        std::to_string(track.tid));
  CHECK(devices == (std::vector<std::string>{"kind_one 0 1", "kind_two 1000 1"}));
}
