// SPDX-License-Identifier: Apache-2.0
// A library that observes RecordFunctions, for tests/python/integration/test_range_callbacks.py:
// what its callbacks see becomes lines of text.
#include <fastprof/fastprof.hpp>
#include <fastprof/primitives/value_text.hpp>
#include <memory>
#include <mutex>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::mutex lock;
std::string seen;
fastprof::CallbackHandle handle = 0;

struct Context : fastprof::ObserverContext {
  std::string name;
};

std::unique_ptr<fastprof::ObserverContext> started(const fastprof::RecordFunction& function) {
  auto context = std::make_unique<Context>();
  context->name = std::string(function.name());
  const std::lock_guard<std::mutex> hold(lock);
  seen += "begin " + context->name + " scope " + std::to_string(static_cast<int>(function.scope()));
  for (const fastprof::NamedValue& input : function.kwinputs()) {
    seen += " " + std::string(input.name) + "=";
    fastprof::append_text(seen, input.value);
  }
  seen += "\n";
  return context;
}

void ended(const fastprof::RecordFunction& function, fastprof::ObserverContext* context) {
  const std::lock_guard<std::mutex> hold(lock);
  seen += "end " + static_cast<Context*>(context)->name;
  seen += function.is_async() ? " async\n" : "\n";
}

}  // namespace

EXPORT void observe(int with_inputs) {
  fastprof::RecordFunctionCallback callback(started, ended);
  callback.needs_inputs(with_inputs != 0);
  handle = fastprof::add_global_callback(callback);
}
EXPORT void stop_observing() {
  fastprof::remove_callback(handle);
}
// What was seen since the last call; valid until the next.
EXPORT const char* take_seen() {
  static std::string taken;
  const std::lock_guard<std::mutex> hold(lock);
  taken.swap(seen);
  seen.clear();
  return taken.c_str();
}
