// SPDX-License-Identifier: Apache-2.0
// Entry point of the injection library for NVTX's payload extension, and the implementation of its
// calls.
#include "backends/annotations/domain.hpp"
#include "backends/annotations/fork.hpp"
#include "backends/annotations/own_recording.hpp"
#include "backends/annotations/record_annotation.hpp"
#include "backends/nvtx/injection/event_text.hpp"
#include "backends/nvtx/injection/payload_records.hpp"
#include "backends/nvtx/injection/payload_schema.hpp"
#include "backends/nvtx/nvtx_abi.hpp"
#include "backends/nvtx/payload_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

annotations::Attributes attributes_in(DomainHandle domain) noexcept {
  annotations::Attributes attributes;
  if (domain != nullptr) attributes.domain = static_cast<annotations::Domain*>(domain)->name();
  return attributes;
}

uint64_t register_schema_in(DomainHandle domain, const SchemaAttributes* given) noexcept {
  return register_schema(domain, given);
}
uint64_t register_enum_in(DomainHandle domain, const EnumAttributes* given) noexcept {
  return register_enum(domain, given);
}

int push_payload(DomainHandle domain, const PayloadData* data, size_t count) noexcept {
  const uint32_t mask = annotations::recording_mask(category::user);
  if (mask == 0) return annotations::push_unrecorded(domain);
  return push_with_payloads(mask, domain, kNoMessage, attributes_in(domain), {data, count});
}
void mark_payload(DomainHandle domain, const PayloadData* data, size_t count) noexcept {
  if (annotations::recording_mask(category::mark) != 0)
    mark_with_payloads(domain, kNoMessage, attributes_in(domain), {data, count});
}
RangeId start_payload(DomainHandle domain, const PayloadData* data, size_t count) noexcept {
  const uint32_t mask = annotations::recording_mask(category::async);
  return mask == 0
             ? 0
             : start_with_payloads(mask, domain, kNoMessage, attributes_in(domain), {data, count});
}

// A payload given at a range's end cannot be added to its record, which is already written: it
// becomes a mark at that time.
void mark_end(DomainHandle domain, const PayloadData* data, size_t count) noexcept {
  if (count != 0 && annotations::recording_mask(category::mark) != 0)
    mark_with_payloads(domain, "payload at the end", attributes_in(domain), {data, count});
}
int pop_payload(DomainHandle domain, const PayloadData* data, size_t count) noexcept {
  mark_end(domain, data, count);
  return annotations::pop_range(domain);
}
void end_payload(DomainHandle domain, RangeId id, const PayloadData* data, size_t count) noexcept {
  mark_end(domain, data, count);
  if (id != 0) end_async(annotations::StartedRanges::of_process().take(id));
}

// Always yes: NVIDIA's Python package queries once and gives up a domain for good if the answer is
// no, but a profile may begin later.
uint8_t is_enabled(DomainHandle) noexcept {
  return 1;
}

template <class Function>
intptr_t pointer_to(Function* function) noexcept {
  return reinterpret_cast<intptr_t>(function);
}

int attach(ExtensionModule* module) noexcept {
  if (module == nullptr || module->struct_size < sizeof(ExtensionModule) ||
      module->module_id != kPayloadModule || module->segment_count == 0 ||
      module->segments == nullptr)
    return 0;
  annotations::watch_forks();
  watch_forks_of_schemas();
  watch_forks_of_prototypes();
  annotations::start_own_recording();
  const struct {
    uint32_t id;
    intptr_t function;
  } calls[] = {
      {extension::SchemaRegister, pointer_to(register_schema_in)},
      {extension::EnumRegister, pointer_to(register_enum_in)},
      {extension::MarkPayload, pointer_to(mark_payload)},
      {extension::RangePushPayload, pointer_to(push_payload)},
      {extension::RangePopPayload, pointer_to(pop_payload)},
      {extension::RangeStartPayload, pointer_to(start_payload)},
      {extension::RangeEndPayload, pointer_to(end_payload)},
      {extension::DomainIsEnabled, pointer_to(is_enabled)},
  };
  for (const auto& call : calls)
    if (call.id < module->segments->slot_count) module->segments->slots[call.id] = call.function;
  return kSuccess;
}

}  // namespace
}  // namespace nvtx
FASTPROF_NAMESPACE_END

// NVTX calls it once for each binary that contains the extension, at its first call of it.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    fastprof::nvtx::ExtensionModule* module) {
  return fastprof::nvtx::attach(module);
}
