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

// A text that is interned when it is first recorded: before that, no library may lead the recorder.
class LastingText {
 public:
  // Sets the text. The caller serialises the calls for one object.
  void set(std::string_view text);
  // The interned text. Any thread; "" if there is none yet.
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
  // The domain of this name; the same object for the same name. Null if memory is exhausted. Any
  // thread.
  static Domain* of_name(std::string_view name) noexcept;
  // The domain of calls that name none.
  static Domain& standard() noexcept;
  // Makes the lock of domains usable in a forked child.
  static void renew_in_child() noexcept;

  // The interned name; null for the default domain. Any thread.
  const char* name() const noexcept { return is_standard_ ? nullptr : name_.interned(); }
  // Names a category; later records show the name. Any thread.
  void name_category(uint32_t id, std::string_view text) noexcept;
  // The interned name of a category, by default its number; null for 0, which means none. Any
  // thread.
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

// The registered text with this content, which is never freed; null if memory is exhausted. Any
// thread.
const RegisteredText* register_text(std::string_view text) noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
