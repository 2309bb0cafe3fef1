// SPDX-License-Identifier: Apache-2.0
// SiteTable: copies the sites and texts that records refer to, and numbers them. The copies outlive
// the library that the sites come from.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Maps addresses in records to indices into `sites` and `strings`. Not thread-safe.
class SiteTable {
 public:
  // Index of a site; copies its strings when it is first seen. State::drain_lock held, so that the
  // site's library cannot be unloaded.
  uint32_t index_of(const Site* site) {
    if (FASTPROF_LIKELY(site == last_)) return last_index_;
    const Cached& cached = cache_[(reinterpret_cast<uintptr_t>(site) >> 4) % kCache];
    last_index_ = cached.site == site ? cached.index : look_up(site);
    last_ = site;
    return last_index_;
  }

  // Index of a memory site for one device, as recorded: device type in the low byte, index in the
  // high byte.
  uint32_t device_index_of(const Site* site, uint16_t device) {
    if (FASTPROF_LIKELY(site == last_on_device_ && device == last_device_))
      return last_device_index_;
    last_device_index_ = index_in(by_device_, std::make_pair(site, device), sites, [&] {
      SiteInfo info = copy(*site);
      info.device_type = static_cast<int8_t>(device & 0xFF);
      info.device_index = static_cast<int8_t>(device >> 8);
      return info;
    });
    last_on_device_ = site;
    last_device_ = device;
    return last_device_index_;
  }

  // Index of a string argument's text. State::drain_lock held.
  uint32_t string_index(const char* text) {
    if (text == nullptr) text = "";
    return index_in(by_text_, text, strings, [text] { return std::string(text); });
  }

  // Index of a Python stack, initially an empty text: the Python layer, which maps ids to frames,
  // fills it in when the session is over.
  uint32_t stack_index(uint64_t id) {
    if (FASTPROF_LIKELY(id == last_stack_ && !python_stacks.empty())) return last_stack_index_;
    const size_t known = strings.size();
    make_room(python_stacks);
    last_stack_index_ = index_in(by_stack_, id, strings, [] { return std::string(); });
    if (last_stack_index_ == known) python_stacks.emplace_back(id, last_stack_index_);
    last_stack_ = id;
    return last_stack_index_;
  }

  // Drops cached addresses after an unload, since they may be reused. The copies stay.
  void forget_addresses() {
    by_address_.clear();
    by_text_.clear();
    by_device_.clear();
    last_ = nullptr;
    last_on_device_ = nullptr;
    for (Cached& cached : cache_) cached = Cached{};
  }

  std::vector<SiteInfo> sites;
  std::vector<std::string> strings;
  std::vector<std::pair<uint64_t, uint32_t>> python_stacks;  // id and index in strings

 private:
  struct Cached {
    const Site* site = nullptr;
    uint32_t index = 0;
  };
  static constexpr size_t kCache = 256;

  uint32_t look_up(const Site* site) {
    const uint32_t index = index_in(by_address_, site, sites, [site] { return copy(*site); });
    cache_[(reinterpret_cast<uintptr_t>(site) >> 4) % kCache] = Cached{site, index};
    return index;
  }

  template <class List>
  static void make_room(List& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 8);
  }

  // Index of `key` in the list; if it is new, appends the result of make(). If memory runs out,
  // neither map nor list is changed.
  template <class Map, class List, class Make>
  static uint32_t index_in(Map& map, const typename Map::key_type& key, List& list, Make make) {
    const auto known = map.find(key);
    if (known != map.end()) return known->second;
    make_room(list);
    auto made = make();
    const auto index = static_cast<uint32_t>(list.size());
    map.emplace(key, index);
    list.push_back(std::move(made));
    return index;
  }

  static SiteInfo copy(const Site& site) {
    SiteInfo info;
    const auto text = [](const char* t) { return t == nullptr ? std::string() : std::string(t); };
    info.name = text(site.name);
    info.category = text(site.category_name);
    info.file = text(site.file);
    info.function = text(site.function);
    info.line = site.line;
    info.color = site.color;
    info.mask = site.mask;
    info.kind = site.kind;
    info.scope = site.scope;
    for (unsigned i = 0; i < site.arg_count && site.arg_names != nullptr; ++i) {
      info.arg_names.push_back(text(site.arg_names[i]));
      info.arg_types.push_back(site.arg_types[i]);
    }
    info.device_type = site.device_type;
    info.device_index = site.device_index;
    return info;
  }

  std::unordered_map<const Site*, uint32_t> by_address_;
  std::unordered_map<const char*, uint32_t> by_text_;
  std::unordered_map<uint64_t, uint32_t> by_stack_;
  std::map<std::pair<const Site*, uint16_t>, uint32_t> by_device_;
  const Site* last_ = nullptr;
  uint32_t last_index_ = 0;
  uint64_t last_stack_ = 0;
  uint32_t last_stack_index_ = 0;
  const Site* last_on_device_ = nullptr;
  uint32_t last_device_index_ = 0;
  uint16_t last_device_ = 0;
  Cached cache_[kCache];
};

FASTPROF_NAMESPACE_END
