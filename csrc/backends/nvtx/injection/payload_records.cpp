// SPDX-License-Identifier: Apache-2.0
// Records of events with payloads: see payload_records.hpp.
#include "backends/nvtx/injection/payload_records.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/annotations/record_annotation.hpp"
#include "backends/nvtx/injection/payload_reader.hpp"
#include "fastprof/base/child_handler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

using annotations::Attributes;

// Prototype sites for one list of argument names and types. Live as long as the process.
struct Prototypes {
  std::vector<std::string> texts;
  std::vector<const char*> names;
  std::vector<ArgType> types;
  Site range{}, async{}, mark{};
};

// The arguments of one event.
struct Arguments {
  std::string message;
  std::vector<ReadValue> values;  // attributes of the event first
  const Prototypes* prototypes = nullptr;
};

struct KnownPrototypes {
  std::mutex lock;
  std::unordered_map<std::string, std::unique_ptr<Prototypes>> by_arguments;
};
KnownPrototypes& known_prototypes() noexcept {
  static KnownPrototypes& all = *new KnownPrototypes;
  return all;
}

const Prototypes* prototypes_of(const std::vector<ReadValue>& values) {
  std::string key;
  for (const ReadValue& value : values)
    key += value.name + '\0' + static_cast<char>('a' + static_cast<int>(value.type));
  const std::lock_guard<std::mutex> hold(known_prototypes().lock);
  std::unique_ptr<Prototypes>& made = known_prototypes().by_arguments[key];
  if (made == nullptr) {
    auto fresh = std::make_unique<Prototypes>();
    for (const ReadValue& value : values) {
      fresh->texts.push_back(value.name);
      fresh->types.push_back(value.type);
    }
    for (const std::string& text : fresh->texts) fresh->names.push_back(text.c_str());
    const auto site = [&fresh](SiteKind kind, uint32_t mask) {
      return make_site(kind, mask, RecordScope::USER_SCOPE, "<annotation>", "", "", 0,
                       static_cast<uint8_t>(fresh->names.size()), fresh->names.data(),
                       fresh->types.data());
    };
    fresh->range = site(SiteKind::range, category::user);
    fresh->async = site(SiteKind::async_range, category::async);
    fresh->mark = site(SiteKind::mark, category::mark);
    made = std::move(fresh);
  }
  return made.get();
}

ReadValue named(const char* name, ArgType type, uint64_t word, const char* text = "") {
  ReadValue value;
  value.name = name;
  value.type = type;
  value.word = word;
  value.text = text;
  return value;
}

// Reduces the values to kMaxArgs, the most that a record holds: surplus values share the last
// argument, as text.
void make_fit(std::vector<ReadValue>& values) {
  if (values.size() <= kMaxArgs) return;
  std::string rest;
  for (size_t i = kMaxArgs - 1; i < values.size(); ++i)
    rest += (rest.empty() ? "" : ", ") + values[i].name + " = " + text_of(values[i]);
  values.resize(kMaxArgs - 1);
  values.push_back(named("more", ArgType::string, 0, rest.c_str()));
}

Arguments arguments_of(const void* domain, const Attributes& attributes, Payloads payloads) {
  ReadPayloads read = read_payloads(domain, payloads.data, payloads.count);
  Arguments made;
  made.message = std::move(read.message);
  if (attributes.domain != nullptr)
    made.values.push_back(named("domain", ArgType::string, 0, attributes.domain));
  if (attributes.category != nullptr)
    made.values.push_back(named("category", ArgType::string, 0, attributes.category));
  if (attributes.has_color)
    made.values.push_back(named("color", ArgType::pointer, attributes.color));
  for (ReadValue& value : read.values) made.values.push_back(std::move(value));
  make_fit(made.values);
  made.prototypes = prototypes_of(made.values);
  return made;
}

// Returns the argument words; their texts are valid as long as `use`.
std::array<uint64_t, kMaxArgs> words_of(NameUse& use, const Arguments& arguments) noexcept {
  std::array<uint64_t, kMaxArgs> words{};
  for (size_t i = 0; i < arguments.values.size(); ++i) {
    const ReadValue& value = arguments.values[i];
    words[i] = value.type == ArgType::string
                   ? reinterpret_cast<uintptr_t>(session_string(use, value.text))
                   : value.word;
  }
  return words;
}

std::string_view name_of(const Arguments& arguments, std::string_view name) noexcept {
  return arguments.message.empty() ? name : std::string_view(arguments.message);
}

AsyncHandle start(uint32_t mask, std::string_view name, const Arguments& arguments) noexcept {
  NameUse use;
  const Site* site = session_site(use, arguments.prototypes->async, name_of(arguments, name));
  const std::array<uint64_t, kMaxArgs> words = words_of(use, arguments);
  const OpenRange open = annotations::begin_record(mask, site, words.data());
  if (open.slot == nullptr) return {};
  return {(open.begin >> 63) != 0 ? ~open.begin : open.begin, site, thread_block()->track->id};
}

}  // namespace

int push_with_payloads(uint32_t mask, void* domain, std::string_view name,
                       const Attributes& attributes, Payloads payloads) noexcept {
  try {
    const Arguments arguments = arguments_of(domain, attributes, payloads);
    annotations::ThreadRanges& ranges = annotations::t_ranges;
    annotations::apply_awaiting_name(ranges.seen_names);
    NameUse use;
    const Site* site = session_site(use, arguments.prototypes->range, name_of(arguments, name));
    const std::array<uint64_t, kMaxArgs> words = words_of(use, arguments);
    return annotations::push_range(ranges, domain,
                                   annotations::begin_record(mask, site, words.data()), site);
  } catch (const std::bad_alloc&) {
    return annotations::push_recorded(mask, domain, name);
  }
}

uint64_t start_with_payloads(uint32_t mask, void* domain, std::string_view name,
                             const Attributes& attributes, Payloads payloads) noexcept {
  annotations::apply_awaiting_name(annotations::t_ranges.seen_names);
  AsyncHandle range;
  try {
    range = start(mask, name, arguments_of(domain, attributes, payloads));
  } catch (const std::bad_alloc&) {
    range = annotations::start_recorded(mask, name, {});
  }
  return range ? annotations::StartedRanges::of_process().add(range) : 0;
}

void mark_with_payloads(void* domain, std::string_view name, const Attributes& attributes,
                        Payloads payloads) noexcept {
  annotations::apply_awaiting_name(annotations::t_ranges.seen_names);
  try {
    const Arguments arguments = arguments_of(domain, attributes, payloads);
    NameUse use;
    const Site* site = session_site(use, arguments.prototypes->mark, name_of(arguments, name));
    record_instant(*site, 0, words_of(use, arguments).data());
  } catch (const std::bad_alloc&) {
    annotations::mark_recorded(name, {});
  }
}

void watch_forks_of_prototypes() noexcept {
  static ChildHandler handler;
  handler.install([] { renew_guarded(known_prototypes().lock, known_prototypes().by_arguments); },
                  known_prototypes());
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
