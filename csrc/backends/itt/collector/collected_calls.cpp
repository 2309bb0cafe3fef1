// SPDX-License-Identifier: Apache-2.0
// Implementation of the program's ITT calls: see collected_calls.hpp. Each runs on the calling
// thread and never throws.
#include "backends/itt/collector/collected_calls.hpp"

#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backends/annotations/domain.hpp"
#include "backends/annotations/record_annotation.hpp"
#include "backends/annotations/thread_names.hpp"
#include "backends/itt/collector/counters.hpp"
#include "backends/itt/itt_abi.hpp"
#include "fastprof/base/child_handler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {
namespace {

using annotations::Attributes;

// Returns our domain for one of ITT's, which ITT may have made before it called the collector.
annotations::Domain* domain_of(const Domain* domain) noexcept {
  if (domain == nullptr) return nullptr;
  if (domain->extra2 != nullptr) return static_cast<annotations::Domain*>(domain->extra2);
  return annotations::Domain::of_name(domain->name != nullptr ? domain->name : "");
}
Attributes attributes_of(const Domain* domain) noexcept {
  Attributes attributes;
  if (const annotations::Domain* known = domain_of(domain)) attributes.domain = known->name();
  return attributes;
}
std::string_view text_of(const StringHandle* handle, std::string_view otherwise) noexcept {
  return handle != nullptr && handle->text != nullptr ? handle->text : otherwise;
}

// Returns a hash of an id in a domain, as a key of StartedRanges. It must only differ between
// ranges that are open at the same time.
uint64_t number_of(const Domain* domain, const Id& id) noexcept {
  uint64_t number = 0xA0761D6478BD642Fu ^ reinterpret_cast<uintptr_t>(domain);
  for (const uint64_t part : {uint64_t{id.d1}, uint64_t{id.d2}, uint64_t{id.d3}}) {
    number = (number ^ part) * 0x9E3779B97F4A7C15u;
    number ^= number >> 32;
  }
  return number;
}

// ---- domains, texts, threads --------------------------------------------------------------------

struct Made {
  std::mutex lock;
  struct {
    std::unordered_map<const void*, Domain*> domains;
    std::unordered_map<const void*, StringHandle*> texts;
  } tables;  // guarded by the lock
};
Made& made() noexcept {
  static Made& all = *new Made;
  return all;
}

Domain* create_domain(const char* name) noexcept {
  annotations::Domain* known = annotations::Domain::of_name(name != nullptr ? name : "");
  const annotations::RegisteredText* text = annotations::register_text(name != nullptr ? name : "");
  if (known == nullptr || text == nullptr) return nullptr;
  const std::lock_guard<std::mutex> hold(made().lock);
  try {
    Domain*& domain = made().tables.domains[known];
    if (domain == nullptr) domain = new Domain{1, text->text.c_str(), nullptr, 0, known, nullptr};
    return domain;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

StringHandle* create_string(const char* text) noexcept {
  const annotations::RegisteredText* known =
      annotations::register_text(text != nullptr ? text : "");
  if (known == nullptr) return nullptr;
  const std::lock_guard<std::mutex> hold(made().lock);
  try {
    StringHandle*& handle = made().tables.texts[known];
    if (handle == nullptr)
      handle = new StringHandle{known->text.c_str(), nullptr, 0, nullptr, nullptr};
    return handle;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void set_thread_name_of_caller(const char* name) noexcept {
  annotations::name_thread(0, name != nullptr ? name : "");
}

// ---- tasks --------------------------------------------------------------------------------------

void push(const Domain* domain, std::string_view name) noexcept {
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0)
    annotations::push_unrecorded(domain);
  else
    annotations::push_recorded(mask, domain, name, attributes_of(domain));
}

void begin_task(const Domain* domain, Id, Id, const StringHandle* name) noexcept {
  push(domain, text_of(name, "(task)"));
}
void begin_task_of_function(const Domain* domain, Id, Id, void* function) noexcept {
  char name[32];
  std::snprintf(name, sizeof name, "%p", function);
  push(domain, name);
}
void end_task(const Domain* domain) noexcept {
  annotations::pop_range(domain);
}
// The program's own timestamps are ignored, because their clock is unknown: the time of the call is
// recorded.
void begin_task_at(const Domain* domain, void*, unsigned long long, Id id, Id parent,
                   const StringHandle* name) noexcept {
  begin_task(domain, id, parent, name);
}
void begin_task_of_function_at(const Domain* domain, void*, unsigned long long, Id id, Id parent,
                               void* function) noexcept {
  begin_task_of_function(domain, id, parent, function);
}
void end_task_at(const Domain* domain, void*, unsigned long long) noexcept {
  end_task(domain);
}

void start(const Domain* domain, const Id& id, std::string_view name) noexcept {
  const uint32_t mask = annotations::recording_mask(category::async);
  if (mask == 0) return;
  const AsyncHandle range = annotations::start_recorded(mask, name, attributes_of(domain));
  if (range) annotations::StartedRanges::of_process().add_as(number_of(domain, id), range);
}
void end_started(const Domain* domain, const Id& id) noexcept {
  end_async(annotations::StartedRanges::of_process().take(number_of(domain, id)));
}
void begin_overlapped(const Domain* domain, Id id, Id, const StringHandle* name) noexcept {
  start(domain, id, text_of(name, "(task)"));
}
void end_overlapped(const Domain* domain, Id id) noexcept {
  end_started(domain, id);
}
void begin_overlapped_at(const Domain* domain, void*, unsigned long long, Id id, Id parent,
                         const StringHandle* name) noexcept {
  begin_overlapped(domain, id, parent, name);
}
void end_overlapped_at(const Domain* domain, void*, unsigned long long, Id id) noexcept {
  end_overlapped(domain, id);
}

void begin_frame(const Domain* domain, const Id* id) noexcept {
  start(domain, id != nullptr ? *id : kNoId, "(frame)");
}
void end_frame(const Domain* domain, const Id* id) noexcept {
  end_started(domain, id != nullptr ? *id : kNoId);
}

void mark(const Domain* domain, Id, const StringHandle* name, int) noexcept {
  if (annotations::recording_mask(category::mark) != 0)
    annotations::mark_recorded(text_of(name, "(marker)"), attributes_of(domain));
}
void mark_at(const Domain* domain, void*, unsigned long long, Id id, const StringHandle* name,
             int scope) noexcept {
  mark(domain, id, name, scope);
}

// ---- events -------------------------------------------------------------------------------------

// An event's number is an index. Each event has its own stack of ranges, because ranges of
// different events need not nest.
struct Events {
  static constexpr int kMost = 4096;
  std::mutex lock;
  int count = 0;
  const annotations::RegisteredText* names[kMost] = {};
};
Events& events() noexcept {
  static Events& all = *new Events;
  return all;
}

int create_event(const char* name, int length) noexcept {
  const std::string_view text(name != nullptr ? name : "");
  const auto* known =
      annotations::register_text(length >= 0 ? text.substr(0, static_cast<size_t>(length)) : text);
  Events& all = events();
  const std::lock_guard<std::mutex> hold(all.lock);
  for (int i = 0; i < all.count; ++i)
    if (all.names[i] == known) return i + 1;
  if (known == nullptr || all.count == Events::kMost) return 0;
  all.names[all.count] = known;
  return ++all.count;
}
const annotations::RegisteredText* const* event_of(int event) noexcept {
  return event > 0 && event <= Events::kMost && events().names[event - 1] != nullptr
             ? &events().names[event - 1]
             : nullptr;
}
int start_event(int event) noexcept {
  const auto* known = event_of(event);
  if (known == nullptr) return 0;
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0)
    annotations::push_unrecorded(known);
  else
    annotations::push_recorded(mask, known, (*known)->text);
  return 0;
}
int end_event(int event) noexcept {
  if (const auto* known = event_of(event)) annotations::pop_range(known);
  return 0;
}

// ---- counters -----------------------------------------------------------------------------------

Counter* create_typed_counter(const char* name, const char*, int type) noexcept {
  try {
    auto* counter = new Counter;
    counter->name = name != nullptr ? name : "(counter)";
    counter->type = static_cast<ValueType>(type);
    return counter;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
Counter* create_counter(const char* name, const char* domain) noexcept {
  return create_typed_counter(name, domain, static_cast<int>(ValueType::uint64));
}
Counter* create_counter_in(const Domain* domain, const char* name, int type) noexcept {
  return create_typed_counter(name, domain != nullptr ? domain->name : nullptr, type);
}
void set_counter(Counter* counter, const void* value) noexcept {
  if (counter != nullptr && value != nullptr && may_record(category::counter))
    record_value(*counter, value);
}
void set_counter_at(Counter* counter, void*, unsigned long long, const void* value) noexcept {
  set_counter(counter, value);
}
void increment(Counter* counter) noexcept {
  if (counter != nullptr) record_sum(*counter, 1);
}
void increment_by(Counter* counter, unsigned long long delta) noexcept {
  if (counter != nullptr) record_sum(*counter, static_cast<int64_t>(delta));
}
void decrement(Counter* counter) noexcept {
  if (counter != nullptr) record_sum(*counter, -1);
}
void decrement_by(Counter* counter, unsigned long long delta) noexcept {
  if (counter != nullptr) record_sum(*counter, -static_cast<int64_t>(delta));
}

template <class Function>
void* pointer_to(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void watch_forks_of_calls() noexcept {
  static ChildHandler handler;
  handler.install(
      [] {
        renew_guarded(made().lock, made().tables);
        renew_lock(events().lock);  // an event's name is written before it is counted
      },
      made(), events());
}

// Where ittnotify has a wide-character variant of a function, the variant "A" is another name of
// the plain one.
const CollectedCall collected_calls[kCollectedCalls] = {
    {"__itt_domain_create", pointer_to(create_domain)},
    {"__itt_domain_createA", pointer_to(create_domain)},
    {"__itt_string_handle_create", pointer_to(create_string)},
    {"__itt_string_handle_createA", pointer_to(create_string)},
    {"__itt_thread_set_name", pointer_to(set_thread_name_of_caller)},
    {"__itt_thread_set_nameA", pointer_to(set_thread_name_of_caller)},
    {"__itt_task_begin", pointer_to(begin_task)},
    {"__itt_task_begin_fn", pointer_to(begin_task_of_function)},
    {"__itt_task_end", pointer_to(end_task)},
    {"__itt_task_begin_ex", pointer_to(begin_task_at)},
    {"__itt_task_begin_fn_ex", pointer_to(begin_task_of_function_at)},
    {"__itt_task_end_ex", pointer_to(end_task_at)},
    {"__itt_task_begin_overlapped", pointer_to(begin_overlapped)},
    {"__itt_task_end_overlapped", pointer_to(end_overlapped)},
    {"__itt_task_begin_overlapped_ex", pointer_to(begin_overlapped_at)},
    {"__itt_task_end_overlapped_ex", pointer_to(end_overlapped_at)},
    {"__itt_frame_begin_v3", pointer_to(begin_frame)},
    {"__itt_frame_end_v3", pointer_to(end_frame)},
    {"__itt_marker", pointer_to(mark)},
    {"__itt_marker_ex", pointer_to(mark_at)},
    {"__itt_event_create", pointer_to(create_event)},
    {"__itt_event_createA", pointer_to(create_event)},
    {"__itt_event_start", pointer_to(start_event)},
    {"__itt_event_end", pointer_to(end_event)},
    {"__itt_counter_create", pointer_to(create_counter)},
    {"__itt_counter_create_typed", pointer_to(create_typed_counter)},
    {"__itt_counter_create_v3", pointer_to(create_counter_in)},
    {"__itt_counter_set_value", pointer_to(set_counter)},
    {"__itt_counter_set_value_v3", pointer_to(set_counter)},
    {"__itt_counter_set_value_ex", pointer_to(set_counter_at)},
    {"__itt_counter_inc", pointer_to(increment)},
    {"__itt_counter_inc_delta", pointer_to(increment_by)},
    {"__itt_counter_dec", pointer_to(decrement)},
    {"__itt_counter_dec_delta", pointer_to(decrement_by)},
};

}  // namespace itt
FASTPROF_NAMESPACE_END
