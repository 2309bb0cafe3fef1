// SPDX-License-Identifier: Apache-2.0
// What the tests of the exclusive profiler share: errors compared by text, and records made by
// hand.
#pragma once

#include <string>

#include "check.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy.hpp"
#include "text_checks.hpp"

// The message of the E that the expression raises contains the text.
#define CHECK_MESSAGE(E, text, expression)                                                      \
  do {                                                                                          \
    const std::string check_message = text_checks::message_of<E>([&] { (void)(expression); });  \
    if (check_message.find(text) == std::string::npos)                                          \
      check::fail(__FILE__, __LINE__,                                                           \
                  std::string(#expression ": expected '") + (text) + "' in: " + check_message); \
  } while (0)

inline fastprof::LegacyEvent make_event(fastprof::LegacyEventKind kind, const std::string& name,
                                        uint64_t handle, int64_t cpu_ns, uint64_t thread_id = 1) {
  fastprof::LegacyEvent event;
  event.kind = kind;
  event.name = name;
  event.handle = handle;
  event.cpu_ns = cpu_ns;
  event.thread_id = thread_id;
  return event;
}
