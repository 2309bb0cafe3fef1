// SPDX-License-Identifier: Apache-2.0
// A device plug-in that does one thing wrong: what BROKEN in the environment names.
#include <fastprof/device_plugin.h>
#include <time.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

std::string broken() {
  const char* const text = std::getenv("BROKEN");
  return text != nullptr ? text : "";
}

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void say(fastprof_reason* reason, const char* text) {
  std::strncpy(reason->text, text, sizeof reason->text - 1);
}

uint64_t number = 0;

int usable(void*, fastprof_reason* reason) {
  if (broken() == "usable throws") throw std::runtime_error("thrown by usable");
  if (broken() == "unusable without a reason") return 0;
  if (broken() == "reason without an end") {
    std::memset(reason->text, 'x', sizeof reason->text);
    return 0;
  }
  return 1;
}

uint64_t begin(void*, uint32_t, fastprof_reason* reason) {
  if (broken() == "begin throws") throw 5;
  if (broken() == "begin fails") {
    say(reason, "the device is lost: restart it");
    return 0;
  }
  return ++number;
}

int end(void*, uint64_t, const fastprof_activity_sink* sink, fastprof_reason* reason) {
  void* const to = sink->state;
  fastprof_activity_kind kind = {};
  kind.size = sizeof kind;
  kind.type = FASTPROF_ACTIVITY_KERNEL;
  kind.name = "good";
  const uint32_t kernel = sink->kind(to, &kind);
  kind.type = FASTPROF_ACTIVITY_CALL;
  kind.name = "call";
  const uint32_t call = sink->kind(to, &kind);
  const uint32_t queue = sink->queue(to, 0, 3, "queue \xff three");
  fastprof_activity good = {};
  good.begin = now_ns();  // at the end: surely inside of the profile
  good.end = good.begin + 1000;
  good.kind = kernel;
  good.place = queue;
  good.text = FASTPROF_NO_INDEX;
  const auto add = [&](auto change) {
    fastprof_activity other = good;
    change(other);
    return sink->add(to, &other, 1);
  };
  sink->add(to, &good, 1);
  if (broken() == "end throws") throw std::runtime_error("thrown by end");
  if (broken() == "end fails") {
    say(reason, "the device was reset");
    return 7;
  }
  if (broken() == "bad values") {
    add([](fastprof_activity& a) { a.begin = 0; });
    add([](fastprof_activity& a) { a.end = a.begin - 1; });
    add([](fastprof_activity& a) { a.begin = a.end = UINT64_MAX; });
    add([](fastprof_activity& a) { a.begin = a.end = 1; });
    add([](fastprof_activity& a) { a.begin += 3600000000000u, a.end = a.begin; });
    add([](fastprof_activity& a) { a.kind = 77; });
    add([](fastprof_activity& a) { a.place = FASTPROF_NO_INDEX; });
    add([](fastprof_activity& a) { a.text = 12; });
    add([&](fastprof_activity& a) { a.kind = call; });  // a call on a queue
    sink->add(to, nullptr, 10);
    sink->text(to, "{\"a\":");
    sink->text(to, nullptr);
    sink->queue(to, -1, 0, nullptr);
    sink->thread(to, -5, nullptr);
    sink->kind(to, nullptr);
    kind.name = nullptr;
    sink->kind(to, &kind);
    kind.name = "too many";
    kind.argument_count = 1000;
    sink->kind(to, &kind);
    kind.argument_count = 0;
    kind.type = 99;
    sink->kind(to, &kind);
    sink->problem(to, "a problem of its own");
    sink->dropped(to, 11);
  }
  if (broken() == "two calls of one number") {
    const uint32_t thread = sink->thread(to, 1, nullptr);
    for (int i = 0; i < 2; ++i)
      add([&](fastprof_activity& a) { a.kind = call, a.place = thread, a.correlation = 9; });
  }
  return 0;
}

void abandon(void*, uint64_t) {
  if (broken() == "abandon throws") throw std::runtime_error("thrown by abandon");
}

int record(void*, int32_t* device, uint64_t* event, int64_t* cpu_ns) {
  if (broken() == "record fails") return 1;
  if (broken() == "record throws") throw std::runtime_error("thrown by record");
  *device = 0;
  *event = now_ns();
  *cpu_ns = static_cast<int64_t>(*event);
  return 0;
}
void release(void*, uint64_t) {}
int elapsed_us(void*, uint64_t from, uint64_t until, double* us) {
  *us = broken() == "elapsed is not a number" ? std::nan("")
                                              : (static_cast<double>(until - from)) / 1000;
  return broken() == "elapsed fails" ? 1 : 0;
}
int on_each_device(void*, void (*action)(void*, int32_t), void* state) {
  action(state, 0);
  return 0;
}
int synchronize(void*) {
  return 0;
}

fastprof_device_stubs stubs = {};
fastprof_device_plugin plugin = {};

}  // namespace

extern "C" FASTPROF_DEVICE_PLUGIN_EXPORT const fastprof_device_plugin* fastprof_device_plugin_open(
    const fastprof_device_host*) {
  stubs.size = sizeof stubs;
  stubs.record = record;
  stubs.release = release;
  stubs.elapsed_us = elapsed_us;
  stubs.on_each_device = on_each_device;
  stubs.synchronize = synchronize;
  plugin.size = sizeof plugin;
  plugin.major = FASTPROF_DEVICE_PLUGIN_MAJOR;
  plugin.name = "broken";
  plugin.device_type = 20;
  plugin.clock = plugin.call_clock = FASTPROF_CLOCK_MONOTONIC;
  plugin.usable = usable;
  plugin.begin = begin;
  plugin.end = end;
  plugin.abandon = abandon;
  plugin.stubs = &stubs;
  if (broken() == "open returns null") return nullptr;
  if (broken() == "open throws") throw std::runtime_error("thrown by open");
  if (broken() == "major") plugin.major = 2;
  if (broken() == "size") plugin.size = 16;
  if (broken() == "name") plugin.name = "Broken Device";
  if (broken() == "no name") plugin.name = nullptr;
  if (broken() == "cuda") plugin.name = "cuda";
  if (broken() == "device type") plugin.device_type = 1;
  if (broken() == "no end") plugin.end = nullptr;
  if (broken() == "clock") plugin.clock = FASTPROF_CLOCK_OWN;
  if (broken() == "call clock") plugin.call_clock = FASTPROF_CLOCK_OWN;
  if (broken() == "stubs") stubs.record = nullptr;
  if (broken() == "stubs size") stubs.size = 8;
  return &plugin;
}
