// SPDX-License-Identifier: Apache-2.0
// Sites in a library's data: what looks like one, where it is searched for, and that no text is
// read beyond its segment.
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

#include "fastprof/recorder/names/module_sites.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
namespace ms = fp::module_sites;

namespace {

// The data of a library: texts, argument lists and sites.
struct Data {
  char texts[96];
  fp::ArgType types[16];
  const char* names[16];
  alignas(16) unsigned char sites[8 * sizeof(fp::Site)];
};

uintptr_t address_of(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

struct Library {
  Data data{};
  ms::Extents extents;

  Library() {
    std::strcpy(data.texts, "name");
    std::strcpy(data.texts + 16, "file");
    std::strcpy(data.texts + 32, "function");
    std::strcpy(data.texts + 48, "category");
    for (const char*& name : data.names) name = data.texts;
    extents.all[0] = {address_of(&data), address_of(&data + 1)};
    extents.searched[0] = true;
    extents.count = 1;
  }
  fp::Site site(uint8_t args = 0) const {
    fp::Site site =
        fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                      data.texts, data.texts + 16, data.texts + 32, 7, args,
                      args == 0 ? nullptr : data.names, args == 0 ? nullptr : data.types);
    site.category_name = data.texts + 48;
    return site;
  }
  fp::Site* place(size_t index) { return reinterpret_cast<fp::Site*>(data.sites) + index; }

  // Whether a site with this change looks like one.
  template <class Change>
  bool looks(uint8_t args, Change change) {
    fp::Site changed = site(args);
    change(changed);
    std::memcpy(static_cast<void*>(place(0)), &changed, sizeof changed);
    return ms::looks_like_site(place(0), extents);
  }
  std::vector<size_t> found() const {
    std::vector<size_t> offsets;
    ms::for_each_site(extents, [&](const fp::Site* site) {
      offsets.push_back(address_of(site) - address_of(data.sites));
    });
    return offsets;
  }
};

}  // namespace

TEST(extents_hold_what_lies_in_them_whole) {
  const ms::Extent extent{100, 200};
  CHECK(extent.holds(100, 1) && extent.holds(100, 100) && extent.holds(199, 1));
  CHECK(!extent.holds(99, 1) && !extent.holds(200, 0) && !extent.holds(200, 1));
  CHECK(!extent.holds(100, 101) && !extent.holds(199, 2));
  char memory[64] = {};
  ms::Extents extents;
  CHECK(!extents.holds(memory, 1));
  extents.all[0] = {address_of(memory), address_of(memory) + 8};
  extents.all[1] = {address_of(memory) + 16, address_of(memory) + 32};
  extents.all[2] = {address_of(memory) + 40, address_of(memory) + 48};
  extents.count = 2;
  CHECK(extents.holds(memory, 8) && extents.holds(memory + 16, 16));
  CHECK(!extents.holds(memory, 9) && !extents.holds(memory + 8, 1));
  CHECK(!extents.holds(memory + 40, 1));  // not counted
}

TEST(a_text_ends_with_its_segment) {
  std::vector<char> text(70000, 'x');
  text[3] = 0;
  ms::Extents extents;
  CHECK_EQ(extents.length_of(text.data()), 0);
  extents.all[0] = {1, 2};
  extents.all[1] = {address_of(text.data()), address_of(text.data() + 100)};
  extents.all[2] = {address_of(text.data() + 200), address_of(text.data() + text.size())};
  extents.count = 3;
  CHECK_EQ(extents.length_of(text.data()), 3);
  CHECK_EQ(extents.length_of(text.data() + 3), 0);
  CHECK_EQ(extents.length_of(text.data() + 4), 96);
  CHECK_EQ(extents.length_of(text.data() + 99), 1);
  CHECK_EQ(extents.length_of(text.data() + 100), 0);
  CHECK_EQ(extents.length_of(text.data() + 200), 65536);  // the most
}

TEST(what_looks_like_a_site) {
  Library library;
  using S = fp::Site;
  const auto looks = [&](auto change) { return library.looks(0, change); };
  CHECK(looks([](S&) {}));
  CHECK(looks([](S& s) { s.category_name = s.file = s.function = nullptr; }));
  CHECK(looks([](S& s) { s.kind = fp::SiteKind::session_membership; }));
  CHECK(!looks([](S& s) { s.kind = fp::SiteKind{9}; }));
  CHECK(looks([](S& s) { s.scope = fp::RecordScope::STATIC_RUNTIME_MODEL; }));
  CHECK(!looks([](S& s) { s.scope = fp::RecordScope::NUM_SCOPES; }));
  CHECK(looks([](S& s) { s.arg_units = 4; }));
  CHECK(!looks([](S& s) { s.arg_units = 5; }));
  CHECK(looks([](S& s) { s.color = 0xFFFFFF; }));
  CHECK(!looks([](S& s) { s.color = 0x1000000; }));
  CHECK(!looks([](S& s) { s.flags = 1; }));
  CHECK(!looks([](S& s) { s.device_type = 0; }));
  CHECK(!looks([](S& s) { s.device_type = 1; }));
  CHECK(!looks([](S& s) { s.device_index = 0; }));
  CHECK(!looks([](S& s) { s.device_index = 1; }));
  CHECK(!looks([](S& s) { s.name = nullptr; }));
  static const char elsewhere[] = "elsewhere";
  CHECK(!looks([](S& s) { s.name = elsewhere; }));
  CHECK(!looks([](S& s) { s.category_name = elsewhere; }));
  CHECK(!looks([](S& s) { s.file = elsewhere; }));
  CHECK(!looks([](S& s) { s.function = elsewhere; }));
  CHECK(!looks([](S& s) { s.kind = fp::SiteKind::counter; }));  // has one argument
}

TEST(what_looks_like_a_site_with_arguments) {
  Library library;
  using S = fp::Site;
  CHECK(library.looks(1, [](S&) {}));
  CHECK(library.looks(12, [](S&) {}));
  CHECK(!library.looks(13, [](S& s) { s.arg_units = 4; }));
  CHECK(!library.looks(4, [](S& s) { s.arg_units = 1; }));
  CHECK(!library.looks(2, [](S& s) { s.arg_types = nullptr; }));
  CHECK(!library.looks(2, [](S& s) { s.arg_names = nullptr; }));
  static const fp::ArgType types[2] = {};
  CHECK(!library.looks(2, [](S& s) { s.arg_types = types; }));
  // To the end of the library, not beyond.
  const char* const* last = reinterpret_cast<const char* const*>(&library.data + 1) - 2;
  for (int i = 0; i < 2; ++i)
    std::memcpy(library.data.sites + sizeof library.data.sites - 16 + 8 * i, &library.data.names[0],
                8);
  CHECK(library.looks(2, [&](S& s) { s.arg_names = last; }));
  CHECK(!library.looks(2, [&](S& s) { s.arg_names = last + 1; }));
  const auto* last_type = reinterpret_cast<const fp::ArgType*>(&library.data + 1) - 2;
  std::memset(library.data.sites + sizeof library.data.sites - 2, 0, 2);
  CHECK(library.looks(2, [&](S& s) { s.arg_types = last_type; }));
  CHECK(!library.looks(2, [&](S& s) { s.arg_types = last_type + 1; }));
  library.data.types[1] = fp::ArgType::pointer;
  CHECK(library.looks(2, [](S&) {}));
  library.data.types[1] = fp::ArgType{6};
  CHECK(!library.looks(2, [](S&) {}));
  CHECK(library.looks(1, [](S&) {}));
  library.data.types[1] = fp::ArgType::int64;
  library.data.names[1] = nullptr;
  CHECK(!library.looks(2, [](S&) {}));
  library.data.names[1] = "elsewhere";
  CHECK(!library.looks(2, [](S&) {}));
  CHECK(library.looks(1, [](S&) {}));
}

TEST(sites_are_found_at_multiples_of_sixteen) {
  Library library;
  fp::Site site = library.site();
  site.name = library.data.texts + 16;  // the first text is cut below
  CHECK(library.found().empty());
  const auto put = [&](size_t offset) {
    std::memcpy(library.data.sites + offset, static_cast<const void*>(&site), sizeof site);
  };
  put(0);
  put(96);
  put(sizeof library.data.sites - sizeof site);  // the last place
  CHECK((library.found() == std::vector<size_t>{0, 96, sizeof library.data.sites - sizeof site}));
  library.extents.all[0].last -= 1;
  CHECK((library.found() == std::vector<size_t>{0, 96}));
  // Not at odd places, but behind a first address that is one.
  put(8);
  library.extents.all[0].first = address_of(library.data.texts) + 1;
  CHECK((library.found() == std::vector<size_t>{96}));
  library.extents.searched[0] = false;
  CHECK(library.found().empty());
  // Of two segments, one may be left out.
  library.extents.all[1] = {address_of(library.data.sites) + 81, library.extents.all[0].last};
  library.extents.searched[1] = true;
  library.extents.count = 2;
  CHECK((library.found() == std::vector<size_t>{96}));
}

TEST(segments_that_may_contain_sites) {
  std::vector<ElfW(Phdr)> headers(20);
  for (size_t i = 0; i < headers.size(); ++i) {
    headers[i].p_type = PT_LOAD;
    headers[i].p_flags = PF_R;
    headers[i].p_vaddr = 0x1000 * i;
    headers[i].p_filesz = 0x123;
    headers[i].p_memsz = 0x800;
  }
  headers[1].p_flags = PF_R | PF_W;
  headers[2].p_flags = PF_X;  // not readable
  headers[3].p_type = PT_NOTE;
  dl_phdr_info info{};
  info.dlpi_addr = 0x100000;
  info.dlpi_phdr = headers.data();
  info.dlpi_phnum = 5;
  const auto extents = [&] {
    return ms::extents_of(fp::platform::Image(&info, sizeof info, false));
  };
  ms::Extents found = extents();
  CHECK_EQ(found.count, 3);
  CHECK_EQ(found.all[0].first, 0x100000);
  CHECK_EQ(found.all[0].last, 0x100123);
  CHECK_EQ(found.all[1].first, 0x101000);
  CHECK_EQ(found.all[2].first, 0x104000);
  CHECK(!found.searched[0] && found.searched[1] && !found.searched[2]);
  info.dlpi_addr = 0;  // a program at a fixed address
  found = extents();
  CHECK(found.searched[0] && found.searched[1] && found.searched[2]);
  info.dlpi_phnum = 20;
  CHECK_EQ(extents().count, 16);
  CHECK_EQ(extents().all[15].first, 0x11000);
}

TEST(libraries_that_have_joined) {
  fp::Session session;
  session.start();  // joins
  fp::State* s = fp::state();
  CHECK(s->modules != nullptr);
  fp::Module other{};
  other.first = 0x1000;
  CHECK(ms::has_joined({s, nullptr}, s->modules->first));
  CHECK(!ms::has_joined({s, nullptr}, s->modules->first + 1));
  CHECK(!ms::has_joined({s, nullptr}, 0x1000));
  CHECK(ms::has_joined({s, &other}, 0x1000));
  CHECK(!ms::has_joined({s, &other}, s->modules->first));
}
