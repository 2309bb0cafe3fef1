// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/queue_names.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "core/named_objects.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

// All fields up to the name, which the first release already has.
constexpr uint32_t kNeededBytes = sizeof(NamedObject);

NamedObjectsFunction find_function() {
  // NVTX has found the library through this variable.
  const char* const path = std::getenv(kNvtxVariable);
  if (path == nullptr || *path == 0) return nullptr;
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto function =
      reinterpret_cast<NamedObjectsFunction>(::dlsym(library, kNamedObjectsFunction));
  ::dlclose(library);  // stays loaded: NVTX holds a handle
  return function;
}

const std::string* find_name(const std::map<std::pair<int32_t, int64_t>, std::string>& names,
                             int32_t device, int64_t number) {
  const auto at = names.find({device, number});
  return at == names.end() ? nullptr : &at->second;
}

}  // namespace

QueueNames::QueueNames(std::vector<std::string>& problems) {
  const NamedObjectsFunction each_named = find_function();
  if (each_named == nullptr) return;
  struct Found {
    std::vector<std::pair<NamedObject, std::string>> names;
    size_t refused = 0;
  } all;
  // No exception may pass through the other library.
  const auto keep = [](void* user, const NamedObject* object) {
    auto& into = *static_cast<Found*>(user);
    if (object->size < kNeededBytes || object->name == nullptr) return;
    try {
      into.names.emplace_back(*object, object->name);
    } catch (const std::bad_alloc&) {
      ++into.refused;
    }
  };
  const size_t refused = each_named(keep, &all) + all.refused;
  if (refused != 0)
    problems.push_back(std::to_string(refused) +
                       " names that the program gave to CUDA's objects were not kept");
  for (const auto& [object, name] : all.names) {
    const std::pair<int32_t, int64_t> key(object.device, object.number);
    switch (static_cast<ObjectKind>(object.kind)) {
      case ObjectKind::device:
        devices_[object.device] = name;
        break;
      case ObjectKind::context:
        if (object.known != 0) contexts_[key] = name;
        break;
      case ObjectKind::stream:
        if (object.known != 0) streams_[key] = name;
        // Handles are reused: numbers grow, so the newest stream with a handle determines its name.
        stream_handles_[object.handle] = name;
        break;
    }
  }
}

std::string QueueNames::text_of(const std::string* stream, const std::string* context,
                                int32_t device) const {
  std::string text;
  const auto add = [&text](const char* what, const std::string& name) {
    text += (text.empty() ? " (" : ", ") + std::string(what) + name;
  };
  if (stream != nullptr) add("", *stream);
  if (context != nullptr) add("context ", *context);
  const auto at = devices_.find(device);
  if (at != devices_.end()) add("device ", at->second);
  return text.empty() ? text : text + ")";
}

void QueueNames::apply(Activities& activities) const {
  if (devices_.empty() && contexts_.empty() && streams_.empty()) return;
  std::vector<bool> done(activities.places.size());
  for (const Activity& row : activities.rows) {
    if (done[row.place]) continue;
    done[row.place] = true;
    ActivityPlace& place = activities.places[row.place];
    if (place.device_index < 0) continue;
    const SiteInfo& site = activities.sites[row.site];
    const std::string* context = nullptr;
    for (size_t i = 0; i < site.arg_names.size(); ++i)
      if (site.arg_names[i] == "context")
        context = find_name(contexts_, place.device_index,
                            static_cast<int64_t>(activities.words[row.words + i]));
    place.name +=
        text_of(find_name(streams_, place.device_index, place.id), context, place.device_index);
  }
}

std::string QueueNames::of_handle(int32_t device, const void* stream) const {
  const auto at = stream_handles_.find(stream);
  return text_of(at == stream_handles_.end() ? nullptr : &at->second, nullptr, device);
}

}  // namespace devices
FASTPROF_NAMESPACE_END
