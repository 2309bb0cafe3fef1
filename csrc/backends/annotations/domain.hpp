// SPDX-License-Identifier: Apache-2.0
// Domains and categories that a program has named through NVTX or ITT. Never freed: programs keep
// their handles until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// A text that is interned when it is first recorded, and not before: until a library leads the
// recorder, there is no intern table.
class LastingText {
 public:
  // Sets the text. The caller serialises the calls for one object.
  void set(std::string_view text);
  // Returns the interned text; "" if no text was set or no library leads the recorder yet. Any
  // thread.
  const char* interned() const noexcept;

 private:
  std::atomic<const std::string*> text_{nullptr};
  mutable std::atomic<const char*> interned_{nullptr};
};

// A category of a domain. Lists of categories only grow.
struct Category {
  uint32_t id = 0;
  LastingText text;
  Category* next = nullptr;
};

class Domain {
 public:
  // Returns the domain with this name, the same object each time. Null if memory is exhausted. Any
  // thread.
  static Domain* of_name(std::string_view name) noexcept;
  // Returns the default domain, of calls that name no domain. Any thread.
  static Domain& standard() noexcept;
  // Registers a handler for forked children, which renews the lock and the table of registered
  // texts. Later calls do nothing. Any thread.
  static void watch_forks() noexcept;

  // Returns the interned name; null for the default domain. Any thread.
  const char* name() const noexcept { return is_standard_ ? nullptr : name_.interned(); }
  // Names a category for records made from now on. Any thread.
  void name_category(uint32_t id, std::string_view text) noexcept;
  // Returns the interned name of a category, or its number as text if it has no name; null for 0,
  // which means no category. Any thread.
  const char* category(uint32_t id) noexcept;

 private:
  static constexpr uint32_t kBuckets = 32;
  static constexpr uint32_t kMaxUnnamed = 1024;  // more share one text

  Category* find(uint32_t id) const noexcept;
  Category* add(uint32_t id, std::string_view text);

  bool is_standard_ = false;
  uint32_t unnamed_ = 0;
  std::string key_;
  LastingText name_;
  std::atomic<Category*> buckets_[kBuckets] = {};
  Domain* next_ = nullptr;
};

// A text that the program has registered, for use by handle.
struct RegisteredText {
  std::string text;
};

// Returns the registered text with this content, which is never freed; null if memory is exhausted.
// Any thread.
const RegisteredText* register_text(std::string_view text) noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
