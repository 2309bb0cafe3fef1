// SPDX-License-Identifier: Apache-2.0
// DebugInfoKind: the key of an entry of thread-local debug info. Programs can define their own.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN

// Key of a debug info entry. Two kinds are equal if they are the same predefined kind, or were made
// from the same std::string_view object, or are both named() with the same text. The namespace is
// hidden, so an inline variable has a different address in each library: predefined kinds are
// therefore identified by a fixed number, and a kind shared by several libraries should be made
// with named().
//   inline constexpr std::string_view request_text = "request";
//   constexpr fastprof::DebugInfoKind REQUEST{&request_text};              // one library
//   constexpr auto TENANT = fastprof::DebugInfoKind::named("acme.tenant"); // whole process
class DebugInfoKind {
 public:
  // Identified by the address of `name`, which must outlive all uses; the text is only printed. A
  // null pointer fails to compile in a constant expression and raises ValueError otherwise.
  constexpr explicit DebugInfoKind(const std::string_view* name)
      : name_((name != nullptr ? name : null_name())->data()),
        name_bytes_(static_cast<uint32_t>(name->size())),
        predefined_(0),
        address_(name) {}

  // Identified by its text, which must outlive all uses.
  static constexpr DebugInfoKind named(std::string_view name) noexcept {
    return DebugInfoKind(name, 0);
  }

  static const DebugInfoKind PRODUCER_INFO;
  static const DebugInfoKind MOBILE_RUNTIME_INFO;
  static const DebugInfoKind PROFILER_STATE;
  static const DebugInfoKind INFERENCE_CONTEXT;
  static const DebugInfoKind PARAM_COMMS_INFO;
  static const DebugInfoKind TEST_INFO;
  static const DebugInfoKind TEST_INFO_2;

  constexpr std::string_view name() const noexcept { return {name_, name_bytes_}; }

  friend constexpr bool operator==(const DebugInfoKind& a, const DebugInfoKind& b) noexcept {
    if (a.predefined_ != b.predefined_ || a.address_ != b.address_) return false;
    return a.predefined_ != 0 || a.address_ != nullptr || a.name() == b.name();
  }
  friend constexpr bool operator!=(const DebugInfoKind& a, const DebugInfoKind& b) noexcept {
    return !(a == b);
  }
  // Total order: predefined kinds by number, then named() kinds by text, then the others by
  // address.
  friend bool operator<(const DebugInfoKind& a, const DebugInfoKind& b) noexcept {
    if (a.predefined_ != b.predefined_) return a.predefined_ - 1 < b.predefined_ - 1;
    if (a.address_ != b.address_)
      return std::less<const std::string_view*>()(a.address_, b.address_);
    return a.predefined_ == 0 && a.address_ == nullptr && a.name() < b.name();
  }
  template <class Traits>
  friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                                      const DebugInfoKind& kind) {
    return out << kind.name();
  }

  size_t hash() const noexcept {
    if (predefined_ != 0) return predefined_;
    if (address_ != nullptr) return std::hash<const std::string_view*>()(address_);
    return std::hash<std::string_view>()(name());
  }

 private:
  constexpr DebugInfoKind(std::string_view name, uint32_t predefined) noexcept
      : name_(name.data()),
        name_bytes_(static_cast<uint32_t>(name.size())),
        predefined_(predefined),
        address_(nullptr) {}
  // Not constexpr, which makes a null name a compile-time error.
  [[noreturn]] static const std::string_view* null_name() {
    raise<ValueError>("a DebugInfoKind needs a name: pass the address of a std::string_view");
  }

  // May point into a library that is unloaded later: print it only while that library is loaded.
  const char* name_;
  uint32_t name_bytes_;
  uint32_t predefined_;  // 1 to 7; 0: not predefined
  const std::string_view* address_;
};

// The numbers are ABI: append only.
inline constexpr DebugInfoKind DebugInfoKind::PRODUCER_INFO{"PRODUCER_INFO", 1};
inline constexpr DebugInfoKind DebugInfoKind::MOBILE_RUNTIME_INFO{"MOBILE_RUNTIME_INFO", 2};
inline constexpr DebugInfoKind DebugInfoKind::PROFILER_STATE{"PROFILER_STATE", 3};
inline constexpr DebugInfoKind DebugInfoKind::INFERENCE_CONTEXT{"INFERENCE_CONTEXT", 4};
inline constexpr DebugInfoKind DebugInfoKind::PARAM_COMMS_INFO{"PARAM_COMMS_INFO", 5};
inline constexpr DebugInfoKind DebugInfoKind::TEST_INFO{"TEST_INFO", 6};
inline constexpr DebugInfoKind DebugInfoKind::TEST_INFO_2{"TEST_INFO_2", 7};

FASTPROF_NAMESPACE_END

template <>
struct std::hash<fastprof::DebugInfoKind> {
  size_t operator()(const fastprof::DebugInfoKind& kind) const noexcept { return kind.hash(); }
};
