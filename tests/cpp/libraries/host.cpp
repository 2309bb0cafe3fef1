// SPDX-License-Identifier: Apache-2.0
// A program that loads, uses and unloads libraries as its arguments say, one step each:
//   open NAME PATH      dlopen, local          global NAME PATH   dlopen, global
//   work NAME COUNT     calls its work()       all NAME               calls its work_with_all()
//   close NAME         dlclose; says whether it is gone
//   reload PATH COUNT   dlopen, work(2), dlclose, so often; names: names and arena that are in use
//   start S, stop S     a session; stop prints "S: name xCOUNT" sorted, and texts of string
//   arguments own COUNT           records in the program itself same NAME           whether it
//   shares this program's recorder leads NAME          whether its State is the elected one others
//   libraries of another ABI, by their file names
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

#if !defined(PLAIN)
#include <fastprof/fastprof.hpp>
#endif

namespace {

std::map<std::string, void*> libraries;
std::map<std::string, std::string> paths;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(2);
}

template <class F>
F symbol(const std::string& library, const char* name) {
  void* found = ::dlsym(libraries.at(library), name);
  if (found == nullptr) fail(::dlerror());
  F function;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

#if !defined(PLAIN)
std::map<std::string, std::unique_ptr<fastprof::Session>> sessions;

void print(const std::string& session, const fastprof::Capture& capture) {
  std::map<std::string, int> counts;
  std::set<std::string> texts;
  for (size_t i = 0; i < capture.size(); ++i) {
    const fastprof::SiteInfo& site = capture.sites[capture.site[i]];
    ++counts[site.name];
    for (size_t k = 0; k < site.arg_types.size(); ++k)
      if (site.arg_types[k] == fastprof::ArgType::string)
        texts.insert(site.arg_names[k] + "=" +
                     capture.strings.at(capture.payload_words[capture.payload[i] + k]));
  }
  for (const auto& [name, count] : counts)
    std::printf("%s: %s x%d\n", session.c_str(), name.c_str(), count);
  for (const std::string& text : texts) std::printf("%s: %s\n", session.c_str(), text.c_str());
  for (const fastprof::EventView event : fastprof::Events(capture))
    if (event.sequence_number() >= 0)
      std::printf("%s: %s #%lld\n", session.c_str(), std::string(event.name()).c_str(),
                  static_cast<long long>(event.sequence_number()));
  if (capture.dropped_total() != 0) std::printf("%s: dropped\n", session.c_str());
  fastprof::for_each_drop_cause(capture.dropped, [&](fastprof::DropCause cause, uint64_t count) {
    if (count != 0)
      std::printf("%s: %s x%llu\n", session.c_str(), fastprof::drop_cause_name(cause),
                  static_cast<unsigned long long>(count));
  });
}
#endif

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc;) {
    const std::string step = argv[i++];
    const auto next = [&]() -> std::string { return i < argc ? argv[i++] : ""; };
    if (step == "open" || step == "global") {
      const std::string name = next(), path = next();
      void* library =
          ::dlopen(path.c_str(), RTLD_NOW | (step == "open" ? RTLD_LOCAL : RTLD_GLOBAL));
      if (library == nullptr) fail(::dlerror());
      libraries[name] = library;
      paths[name] = path;
    } else if (step == "work") {
      const std::string name = next();
      symbol<void (*)(int)>(name, "work")(std::atoi(next().c_str()));
    } else if (step == "all") {
      symbol<void (*)()>(next(), "work_with_all")();
    } else if (step == "close") {
      const std::string name = next();
      ::dlclose(libraries.at(name));
      libraries.erase(name);
      void* still = ::dlopen(paths[name].c_str(), RTLD_NOW | RTLD_NOLOAD);
      std::printf("%s %s\n", name.c_str(), still == nullptr ? "gone" : "stays");
      if (still != nullptr) ::dlclose(still);
    } else if (step == "leads") {
      const std::string name = next();
      const bool leads = symbol<const void* (*)()>(name, "own_recorder_state")() ==
                         symbol<const void* (*)()>(name, "recorder_state")();
      std::printf("%s %s\n", name.c_str(), leads ? "leads" : "follows");
    } else if (step == "reload") {
      const std::string path = next();
      for (int k = std::atoi(next().c_str()); k > 0; --k) {
        void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) fail(::dlerror());
        libraries["reloaded"] = library;
        symbol<void (*)(int)>("reloaded", "work")(2);
        ::dlclose(library);
      }
#if !defined(PLAIN)
    } else if (step == "names") {
      const fastprof::State* s = fastprof::state();
      const auto kept = [](const fastprof::NameStore& store) {
        return store.table == nullptr ? 0 : store.table->count;
      };
      std::printf("names %llu %llu arena %llu\n",
                  static_cast<unsigned long long>(kept(s->session_names)),
                  static_cast<unsigned long long>(kept(s->lasting_names)),
                  static_cast<unsigned long long>(s->arena_end - s->arena_next));
    } else if (step == "start") {
      auto& session = sessions[next()];
      session = std::make_unique<fastprof::Session>();
      session->start();
    } else if (step == "stop") {
      const std::string name = next();
      print(name, sessions.at(name)->stop());
    } else if (step == "drain") {
      sessions.at(next())->drain();
    } else if (step == "own") {
      const int count = std::atoi(next().c_str());
      for (int k = 0; k < count; ++k) {
        FASTPROF_RANGE("program");
      }
    } else if (step == "same") {
      const std::string name = next();
      const bool same = symbol<const void* (*)()>(name, "recorder_state")() == fastprof::state();
      std::printf("%s %s\n", name.c_str(), same ? "shared" : "apart");
    } else if (step == "others") {
      for (const std::string& path : fastprof::libraries_of_other_abi())
        std::printf("other %s\n", path.substr(path.rfind('/') + 1).c_str());
#else
    } else if (step == "same" || step == "agree") {
      const std::string a = next(), b = next();
      const bool same = symbol<const void* (*)()>(a, "recorder_state")() ==
                        symbol<const void* (*)()>(b, "recorder_state")();
      std::printf("%s %s %s\n", a.c_str(), b.c_str(), same ? "shared" : "apart");
#endif
    } else {
      fail("no such step: " + step);
    }
  }
  std::printf("done\n");
  return 0;
}
