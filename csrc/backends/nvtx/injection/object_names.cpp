// SPDX-License-Identifier: Apache-2.0
// Names of objects of CUDA: see object_names.hpp. An object is known by its handle here and by
// CUPTI's number in records of its work. CUPTI translates handles, as long as the object exists:
// so it is asked when the program gives the name.
#include "backends/nvtx/injection/object_names.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <tuple>

#include "backends/nvtx/injection/event_text.hpp"
#include "core/named_objects.hpp"
#include "fastprof/base/child_handler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

using devices::NamedObject;
using devices::ObjectKind;

// Programs that make and name streams without end keep the first of them, and the rest is counted.
constexpr size_t kMaxNames = size_t{1} << 16;
constexpr size_t kMaxNameBytes = 1024;

// Functions of libcupti and of the driver, of copies that the process has loaded.
struct Translation {
  uint32_t (*stream_id)(void* context, void* stream, uint8_t per_thread, uint32_t* id) = nullptr;
  uint32_t (*context_id)(void* context, uint32_t* id) = nullptr;
  uint32_t (*device_id)(void* context, uint32_t* id) = nullptr;
  int (*stream_context)(void* stream, void** context) = nullptr;

  // Whether CUPTI is there; looks again until it is. The caller holds the lock of names.
  bool find() noexcept {
    if (stream_id != nullptr && context_id != nullptr && device_id != nullptr) return true;
    void* const cupti = loaded_cupti();
    if (cupti == nullptr) return false;
    bind(cupti, "cuptiGetStreamIdEx", stream_id);
    bind(cupti, "cuptiGetContextId", context_id);
    bind(cupti, "cuptiGetDeviceId", device_id);
    if (void* const driver = loaded("libcuda.so.1")) bind(driver, "cuStreamGetCtx", stream_context);
    return stream_id != nullptr && context_id != nullptr && device_id != nullptr;
  }

 private:
  static void* loaded(const char* name) noexcept {
    return ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  // As the CUDA backend chooses it: see load_cupti(). It is never unloaded.
  static void* loaded_cupti() noexcept {
    if (const char* const chosen = std::getenv(devices::kCuptiVariable))
      return *chosen != 0 ? loaded(chosen) : nullptr;
    for (const char* name : devices::kCuptiSonames)
      if (void* const found = loaded(name)) return found;
    return nullptr;
  }
  template <class Function>
  static void bind(void* library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
};

// An object by its number where that is known, since the handle may be another's later.
struct Key {
  ObjectKind kind;
  int32_t device;
  bool known;
  int64_t number;
  bool operator<(const Key& other) const noexcept {
    return std::tie(kind, device, known, number) <
           std::tie(other.kind, other.device, other.known, other.number);
  }
};
struct Named {
  std::string name;
  const void* handle;
};

class ObjectNames {
 public:
  // Never destroyed: profiles may end after static destructors have run.
  static ObjectNames& of_process() noexcept {
    static ObjectNames& all = *new ObjectNames;
    return all;
  }
  static void watch_forks() noexcept {
    static ChildHandler handler;
    handler.install(&renew_in_child, of_process());
  }

  void name_device(int32_t device, std::string_view name) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    keep({ObjectKind::device, device, true, device}, nullptr, name);
  }
  void name_context(void* context, std::string_view name) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    Key key = unknown(ObjectKind::context, context);
    uint32_t device = 0, id = 0;
    if (translates() && cuda_.context_id(context, &id) == 0 &&
        cuda_.device_id(context, &device) == 0)
      key = {ObjectKind::context, static_cast<int32_t>(device), true, id};
    keep(key, context, name);
  }
  void name_stream(void* stream, std::string_view name) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    Key key = unknown(ObjectKind::stream, stream);
    if (translates()) {
      // Null, the current context, is right for all streams if the driver cannot say.
      void* context = nullptr;
      if (cuda_.stream_context != nullptr && cuda_.stream_context(stream, &context) != 0)
        context = nullptr;
      uint32_t device = 0, id = 0;
      if (cuda_.stream_id(context, stream, 0, &id) == 0 && cuda_.device_id(context, &device) == 0)
        key = {ObjectKind::stream, static_cast<int32_t>(device), true, id};
    }
    keep(key, stream, name);
  }

  size_t each(devices::EachNamedObject call, void* user) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    for (const auto& [key, named] : names_) {
      const NamedObject object{sizeof(NamedObject), static_cast<uint32_t>(key.kind),
                               key.device,          key.known ? 1u : 0u,
                               key.number,          named.handle,
                               named.name.c_str()};
      call(user, &object);
    }
    return refused_;
  }

 private:
  static void renew_in_child() noexcept {
    ObjectNames& all = of_process();
    renew_guarded(all.lock_, all.names_);
    all.forked_ = true;
  }

  // A forked child may not touch CUPTI.
  bool translates() noexcept { return !forked_ && cuda_.find(); }

  static Key unknown(ObjectKind kind, void* handle) noexcept {
    return {kind, -1, false, static_cast<int64_t>(reinterpret_cast<intptr_t>(handle))};
  }

  // A later name of an object replaces the former.
  void keep(const Key& key, const void* handle, std::string_view name) noexcept {
    try {
      const auto at = names_.find(key);
      if (at == names_.end() && names_.size() == kMaxNames) {
        ++refused_;
        return;
      }
      names_[key] = {std::string(name.substr(0, kMaxNameBytes)), handle};
    } catch (const std::bad_alloc&) {
      ++refused_;
    }
  }

  std::mutex lock_;
  std::map<Key, Named> names_;
  Translation cuda_;
  size_t refused_ = 0;
  bool forked_ = false;
};

void name_device(int device, const char* name) noexcept {
  ObjectNames::of_process().name_device(device, EventText(name).view());
}
void name_device_wide(int device, const wchar_t* name) noexcept {
  const EventText text(name);
  ObjectNames::of_process().name_device(device, text.view());
}
void name_context(void* context, const char* name) noexcept {
  ObjectNames::of_process().name_context(context, EventText(name).view());
}
void name_context_wide(void* context, const wchar_t* name) noexcept {
  const EventText text(name);
  ObjectNames::of_process().name_context(context, text.view());
}
void name_stream(void* stream, const char* name) noexcept {
  ObjectNames::of_process().name_stream(stream, EventText(name).view());
}
void name_stream_wide(void* stream, const wchar_t* name) noexcept {
  const EventText text(name);
  ObjectNames::of_process().name_stream(stream, text.view());
}
// CUPTI numbers events, too, but has no function that tells the number of a handle.
void name_event(void*, const void*) noexcept {}

}  // namespace

const ReceivedCall received_cuda_calls[8] = {
    {cuda::NameCuDeviceA, pointer_to(name_device)},
    {cuda::NameCuDeviceW, pointer_to(name_device_wide)},
    {cuda::NameCuContextA, pointer_to(name_context)},
    {cuda::NameCuContextW, pointer_to(name_context_wide)},
    {cuda::NameCuStreamA, pointer_to(name_stream)},
    {cuda::NameCuStreamW, pointer_to(name_stream_wide)},
    {cuda::NameCuEventA, pointer_to(name_event)},
    {cuda::NameCuEventW, pointer_to(name_event)},
};

const ReceivedCall received_cudart_calls[6] = {
    {cudart::NameCudaDeviceA, pointer_to(name_device)},
    {cudart::NameCudaDeviceW, pointer_to(name_device_wide)},
    {cudart::NameCudaStreamA, pointer_to(name_stream)},
    {cudart::NameCudaStreamW, pointer_to(name_stream_wide)},
    {cudart::NameCudaEventA, pointer_to(name_event)},
    {cudart::NameCudaEventW, pointer_to(name_event)},
};

void watch_forks_of_object_names() noexcept {
  ObjectNames::watch_forks();
}

bool name_cuda_resource(const ResourceAttributes& resource, std::string_view name) noexcept {
  void* const handle = const_cast<void*>(resource.identifier.pointer);
  switch (resource.type) {
    case kCudaDevice:
    case kCudartDevice:
      ObjectNames::of_process().name_device(static_cast<int32_t>(resource.identifier.number), name);
      return true;
    case kCudaContext:
      ObjectNames::of_process().name_context(handle, name);
      return true;
    case kCudaStream:
    case kCudartStream:
      ObjectNames::of_process().name_stream(handle, name);
      return true;
    default:
      return false;
  }
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END

// The backends find it with dlsym() in the library that NVTX has loaded: see named_objects.hpp.
extern "C" __attribute__((visibility("default"))) size_t fastprof_named_objects(
    fastprof::devices::EachNamedObject each, void* user) {
  return fastprof::nvtx::ObjectNames::of_process().each(each, user);
}
