// SPDX-License-Identifier: Apache-2.0
// Slow paths to begin and end a Python range: see range_entry.hpp.
#include "bindings/range_entry.hpp"

#include <new>
#include <string>
#include <vector>

#include "bindings/python_name.hpp"
#include "bindings/python_stack.hpp"
#include "bindings/range_payload.hpp"
#include "fastprof/recorder/hot_path/detailed_range.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/recorder/state/make_site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

uint32_t python_stack_sessions = 0;
uint32_t joined_stack_sessions = 0;

namespace {

// A site without category: selects callbacks but records nothing; the entry records by itself.
constexpr Site callbacks_only_site =
    make_site(SiteKind::range, 0, RecordScope::USER_SCOPE, "", "", "", 0);

RecordFunction* start_callbacks(const Site* site, const RangePayload* payload) {
  auto* function = new (std::nothrow) RecordFunction(callbacks_only_site);
  if (function == nullptr) return nullptr;
  if (!function->is_active()) {
    delete function;
    return nullptr;
  }
  if (payload != nullptr && function->needs_inputs()) {
    const std::vector<NamedValue> values = named_values(*payload);
    function->before(FunctionName(std::string_view(site->name)), {},
                     {values.data(), values.size()});
  } else {
    function->before(FunctionName(std::string_view(site->name)));
  }
  return function;
}

}  // namespace

void begin_entry_slow(RangeEntry& entry, State* s, const Site* site, RangePayload* payload) {
  const uint32_t shown = load_relaxed(&s->mask);
  const uint32_t mask = (shown & mask_bit::dynamic) != 0 ? load_relaxed(&s->real_mask) : shown;
  if ((mask & mask_bit::callbacks) != 0) entry.function = start_callbacks(site, payload);
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return;
  name_thread_once();

  uint64_t args[kMaxArgs];
  uint64_t blocks[kMaxOwnDetailWords];
  uint32_t words = 0;
  const auto add_block = [&](DetailType type, uint32_t count) {
    blocks[words++] = detail_block_word(type, count);
  };
  if (payload != nullptr) {
    for (size_t i = 0; i < payload->arguments.size(); ++i) args[i] = payload->arguments[i].word;
    if (payload->json != nullptr) {
      add_block(DetailType::json, 1);
      blocks[words++] = reinterpret_cast<uintptr_t>(payload->json);
    }
    if (payload->node_id >= 0 || payload->record_function_id != 0) {
      add_block(DetailType::op, 4);
      blocks[words++] = static_cast<uint64_t>(int64_t{-1});
      blocks[words++] = 0;
      blocks[words++] = payload->record_function_id;
      blocks[words++] = static_cast<uint64_t>(payload->node_id);
    }
  }
  if (load_relaxed(&python_stack_sessions) != 0 && load_relaxed(&joined_stack_sessions) == 0) {
    if (const uint64_t stack = capture_python_stack()) {
      add_block(DetailType::python_stack, 1);
      blocks[words++] = stack;
    }
  }
  const OpenRange open = begin_detailed(s, block, site, args, blocks, words);
  if (open.slot == nullptr) return;
  entry.slot = open.slot;
  entry.begin = open.begin;
  entry.track = thread_block()->track->id;
  if (entry.function != nullptr) entry.function->set_recorded_begin(open.begin);
}

void end_entry_slow(RangeEntry& entry, const Site* site) noexcept {
  if (entry.slot != nullptr) end_range(RangeHandle{entry.slot, entry.begin, site, entry.track});
  if (entry.function != nullptr) {
    entry.function->end();
    delete entry.function;
    entry.function = nullptr;
  }
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
