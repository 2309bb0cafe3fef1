// SPDX-License-Identifier: Apache-2.0
// With FASTPROF_DISABLE every macro compiles to nothing, arguments included, on any platform.
#define FASTPROF_DISABLE
#include <fastprof/fastprof.hpp>

static int evaluated = 0;
[[maybe_unused]] static int count() {
  return ++evaluated;
}

int main() {
  FASTPROF_FUNCTION();
  FASTPROF_RANGE("off");
  FASTPROF_RANGE_DYNAMIC("off" + std::to_string(count()));
  FASTPROF_RANGE_ARGS("off", "value", count());
  FASTPROF_MARK("off");
  FASTPROF_COUNTER("off", count());
  struct Packet {
    unsigned id : 12;
  };
  const Packet packet{7};
  FASTPROF_COUNTER("off", packet.id);
  FASTPROF_FLOW_BEGIN([] { return static_cast<unsigned>(count()); }());
  FASTPROF_FLOW_END(static_cast<unsigned>(count()));
  const auto handle = FASTPROF_ASYNC_BEGIN("off");
  FASTPROF_ASYNC_END(handle);
  return evaluated;
}
