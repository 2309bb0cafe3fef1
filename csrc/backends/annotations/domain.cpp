// SPDX-License-Identifier: Apache-2.0
// Domains, categories and registered texts: see domain.hpp.
#include "backends/annotations/domain.hpp"

#include <new>
#include <unordered_map>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {
namespace {

struct Names {
  std::mutex lock;
  Domain* domains = nullptr;
  std::unordered_map<std::string_view, RegisteredText*> registered;  // keys lie in the values
};
Names& names() noexcept {
  static Names& all = *new Names;
  return all;
}

}  // namespace

void LastingText::set(std::string_view text) {
  // Previous texts are not freed: another thread may be interning one. Partners of both stores: the
  // acquire loads in interned().
  text_.store(new std::string(text), std::memory_order_release);
  interned_.store(nullptr, std::memory_order_release);
}

const char* LastingText::interned() const noexcept {
  const char* known = interned_.load(std::memory_order_acquire);
  if (FASTPROF_LIKELY(known != nullptr)) return known;
  const std::string* text = text_.load(std::memory_order_acquire);
  if (text == nullptr || state()->functions == nullptr) return "";
  known = intern_string(*text);
  interned_.store(known, std::memory_order_release);
  return known;
}

Domain* Domain::of_name(std::string_view name) noexcept {
  const std::lock_guard<std::mutex> hold(names().lock);
  for (Domain* domain = names().domains; domain != nullptr; domain = domain->next_)
    if (domain->key_ == name) return domain;
  try {
    auto* made = new Domain;
    made->key_ = name;
    made->name_.set(name);
    made->next_ = names().domains;
    names().domains = made;
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Domain& Domain::standard() noexcept {
  static Domain& domain = *[] {
    auto* made = new Domain;
    made->is_standard_ = true;
    return made;
  }();
  return domain;
}

void Domain::watch_forks() noexcept {
  static ChildHandler handler;
  // The list of domains is always consistent: a domain is complete before it is linked. standard()
  // is made now because children call it.
  handler.install([] { renew_guarded(names().lock, names().registered); }, names(), standard());
}

Category* Domain::find(uint32_t id) const noexcept {
  Category* category = buckets_[id % kBuckets].load(std::memory_order_acquire);
  while (category != nullptr && category->id != id) category = category->next;
  return category;
}

Category* Domain::add(uint32_t id, std::string_view text) {
  auto* made = new Category;
  made->id = id;
  made->text.set(text);
  made->next = buckets_[id % kBuckets].load(std::memory_order_relaxed);
  buckets_[id % kBuckets].store(made, std::memory_order_release);  // partner: acquire in find()
  return made;
}

void Domain::name_category(uint32_t id, std::string_view text) noexcept {
  const std::lock_guard<std::mutex> hold(names().lock);
  try {
    if (Category* known = find(id))
      known->text.set(text);
    else
      add(id, text);
  } catch (const std::bad_alloc&) {
    // Without memory, the category is shown by its number.
  }
}

const char* Domain::category(uint32_t id) noexcept {
  if (id == 0) return nullptr;
  if (const Category* known = find(id)) return known->text.interned();
  const std::lock_guard<std::mutex> hold(names().lock);
  try {
    if (const Category* known = find(id)) return known->text.interned();
    if (unnamed_ == kMaxUnnamed) return "<too many categories>";
    ++unnamed_;
    return add(id, std::to_string(id))->text.interned();
  } catch (const std::bad_alloc&) {
    return "<no memory>";
  }
}

const RegisteredText* register_text(std::string_view text) noexcept {
  const std::lock_guard<std::mutex> hold(names().lock);
  try {
    auto& registered = names().registered;
    const auto found = registered.find(text);
    if (found != registered.end()) return found->second;
    auto* made = new RegisteredText{std::string(text)};
    registered.emplace(made->text, made);
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
