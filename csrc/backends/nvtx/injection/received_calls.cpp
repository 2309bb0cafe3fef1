// SPDX-License-Identifier: Apache-2.0
// Implementation of the program's NVTX calls: see received_calls.hpp. Each runs on the calling
// thread, never throws, and returns what NVTX documents: levels of push and pop from 0, numbers of
// started ranges.
#include "backends/nvtx/injection/received_calls.hpp"

#include "backends/annotations/domain.hpp"
#include "backends/annotations/record_annotation.hpp"
#include "backends/annotations/thread_names.hpp"
#include "backends/nvtx/injection/event_text.hpp"
#include "backends/nvtx/injection/object_names.hpp"
#include "backends/nvtx/injection/payload_records.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

using annotations::Attributes;
using annotations::Domain;

// Returns the domain of a handle; null: the default domain.
Domain& domain_of(DomainHandle handle) noexcept {
  return handle != nullptr ? *static_cast<Domain*>(handle) : Domain::standard();
}

// Returns whether an event's attributes point to payloads of the extension.
FASTPROF_ALWAYS_INLINE bool has_payloads(const EventAttributes& event) noexcept {
  return FASTPROF_UNLIKELY(static_cast<int32_t>(event.payload_type) == kExtendedPayload);
}
Payloads payloads_of(const EventAttributes& event) noexcept {
  return {reinterpret_cast<const PayloadData*>(static_cast<uintptr_t>(event.payload.uint64)),
          event.reserved > 0 ? static_cast<size_t>(event.reserved) : 0};
}

// ---- pushed ranges ------------------------------------------------------------------------------

int push_text(const char* message) noexcept {
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0) return annotations::push_unrecorded(nullptr);
  return annotations::push_recorded(mask, nullptr, message != nullptr ? message : kNoMessage);
}

int push_wide(const wchar_t* message) noexcept {
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0) return annotations::push_unrecorded(nullptr);
  const EventText text(message);
  return annotations::push_recorded(mask, nullptr, text.view());
}

int push_in_domain(DomainHandle domain, const EventAttributes* event) noexcept {
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0) return annotations::push_unrecorded(domain);
  if (!is_complete(event)) return annotations::push_recorded(mask, domain, kNoMessage);
  const EventText text(event->message_type, event->message);
  const Attributes attributes = attributes_of(domain_of(domain), *event);
  if (has_payloads(*event))
    return push_with_payloads(mask, domain, text.view(), attributes, payloads_of(*event));
  return annotations::push_recorded(mask, domain, text.view(), attributes);
}
int push_event(const EventAttributes* event) noexcept {
  return push_in_domain(nullptr, event);
}

int pop_in_domain(DomainHandle domain) noexcept {
  return annotations::pop_range(domain);
}
int pop() noexcept {
  return annotations::pop_range(nullptr);
}

// ---- started ranges and marks -------------------------------------------------------------------

RangeId start_range(std::string_view text, const Attributes& attributes) noexcept {
  const uint32_t mask = annotations::recording_mask(category::async);
  if (mask == 0) return 0;
  const AsyncHandle range = annotations::start_recorded(mask, text, attributes);
  return range ? annotations::StartedRanges::of_process().add(range) : 0;
}
RangeId start_text(const char* message) noexcept {
  return start_range(EventText(message).view(), {});
}
RangeId start_wide(const wchar_t* message) noexcept {
  const EventText text(message);
  return start_range(text.view(), {});
}
RangeId start_in_domain(DomainHandle domain, const EventAttributes* event) noexcept {
  const uint32_t mask = annotations::recording_mask(category::async);
  if (mask == 0) return 0;
  if (!is_complete(event)) return start_range(kNoMessage, {});
  const EventText text(event->message_type, event->message);
  if (has_payloads(*event))
    return start_with_payloads(mask, domain, text.view(), attributes_of(domain_of(domain), *event),
                               payloads_of(*event));
  return start_range(text.view(), attributes_of(domain_of(domain), *event));
}
RangeId start_event(const EventAttributes* event) noexcept {
  return start_in_domain(nullptr, event);
}
void end_started(RangeId id) noexcept {
  if (id == 0) return;
  end_async(annotations::StartedRanges::of_process().take(id));
}
void end_in_domain(DomainHandle, RangeId id) noexcept {
  end_started(id);
}

void mark_in_domain(DomainHandle domain, const EventAttributes* event) noexcept {
  if (annotations::recording_mask(category::mark) == 0) return;
  if (!is_complete(event)) {
    annotations::mark_recorded(kNoMessage, {});
    return;
  }
  const EventText text(event->message_type, event->message);
  const Attributes attributes = attributes_of(domain_of(domain), *event);
  if (has_payloads(*event))
    mark_with_payloads(domain, text.view(), attributes, payloads_of(*event));
  else
    annotations::mark_recorded(text.view(), attributes);
}
void mark_event(const EventAttributes* event) noexcept {
  mark_in_domain(nullptr, event);
}
void mark_text(const char* message) noexcept {
  if (annotations::recording_mask(category::mark) != 0)
    annotations::mark_recorded(EventText(message).view(), {});
}
void mark_wide(const wchar_t* message) noexcept {
  if (annotations::recording_mask(category::mark) == 0) return;
  const EventText text(message);
  annotations::mark_recorded(text.view(), {});
}

// ---- names --------------------------------------------------------------------------------------

DomainHandle create_domain(const char* name) noexcept {
  return Domain::of_name(EventText(name).view());
}
DomainHandle create_domain_wide(const wchar_t* name) noexcept {
  const EventText text(name);
  return Domain::of_name(text.view());
}
void destroy_domain(DomainHandle) noexcept {}  // open ranges still refer to it

TextHandle register_in_domain(DomainHandle, const char* text) noexcept {
  return annotations::register_text(EventText(text).view());
}
TextHandle register_in_domain_wide(DomainHandle, const wchar_t* wide) noexcept {
  const EventText text(wide);
  return annotations::register_text(text.view());
}

void name_category_in(DomainHandle domain, uint32_t id, const char* name) noexcept {
  domain_of(domain).name_category(id, EventText(name).view());
}
void name_category_in_wide(DomainHandle domain, uint32_t id, const wchar_t* name) noexcept {
  const EventText text(name);
  domain_of(domain).name_category(id, text.view());
}
void name_category(uint32_t id, const char* name) noexcept {
  name_category_in(nullptr, id, name);
}
void name_category_wide(uint32_t id, const wchar_t* name) noexcept {
  name_category_in_wide(nullptr, id, name);
}

void name_os_thread(uint32_t tid, const char* name) noexcept {
  annotations::name_thread(tid, EventText(name).view());
}
void name_os_thread_wide(uint32_t tid, const wchar_t* name) noexcept {
  const EventText text(name);
  annotations::name_thread(tid, text.view());
}

// Of NVTX's resources, only threads and objects of CUDA are used: their names.
ResourceHandle create_resource(DomainHandle, const ResourceAttributes* resource) noexcept {
  static char token;
  if (resource != nullptr && resource->size >= sizeof(ResourceAttributes)) {
    const EventText text(resource->message_type, resource->message);
    if (!name_cuda_resource(*resource, text.view()) && resource->type == kThreadNative)
      annotations::name_thread(static_cast<uint32_t>(resource->identifier.number), text.view());
  }
  return &token;
}
void destroy_resource(ResourceHandle) noexcept {}
void initialize(const void*) noexcept {}

}  // namespace

const ReceivedCall received_core_calls[15] = {
    {core::MarkEx, pointer_to(mark_event)},
    {core::MarkA, pointer_to(mark_text)},
    {core::MarkW, pointer_to(mark_wide)},
    {core::RangeStartEx, pointer_to(start_event)},
    {core::RangeStartA, pointer_to(start_text)},
    {core::RangeStartW, pointer_to(start_wide)},
    {core::RangeEnd, pointer_to(end_started)},
    {core::RangePushEx, pointer_to(push_event)},
    {core::RangePushA, pointer_to(push_text)},
    {core::RangePushW, pointer_to(push_wide)},
    {core::RangePop, pointer_to(pop)},
    {core::NameCategoryA, pointer_to(name_category)},
    {core::NameCategoryW, pointer_to(name_category_wide)},
    {core::NameOsThreadA, pointer_to(name_os_thread)},
    {core::NameOsThreadW, pointer_to(name_os_thread_wide)},
};

const ReceivedCall received_domain_calls[15] = {
    {core2::DomainMarkEx, pointer_to(mark_in_domain)},
    {core2::DomainRangeStartEx, pointer_to(start_in_domain)},
    {core2::DomainRangeEnd, pointer_to(end_in_domain)},
    {core2::DomainRangePushEx, pointer_to(push_in_domain)},
    {core2::DomainRangePop, pointer_to(pop_in_domain)},
    {core2::DomainResourceCreate, pointer_to(create_resource)},
    {core2::DomainResourceDestroy, pointer_to(destroy_resource)},
    {core2::DomainNameCategoryA, pointer_to(name_category_in)},
    {core2::DomainNameCategoryW, pointer_to(name_category_in_wide)},
    {core2::DomainRegisterStringA, pointer_to(register_in_domain)},
    {core2::DomainRegisterStringW, pointer_to(register_in_domain_wide)},
    {core2::DomainCreateA, pointer_to(create_domain)},
    {core2::DomainCreateW, pointer_to(create_domain_wide)},
    {core2::DomainDestroy, pointer_to(destroy_domain)},
    {core2::Initialize, pointer_to(initialize)},
};

}  // namespace nvtx
FASTPROF_NAMESPACE_END
