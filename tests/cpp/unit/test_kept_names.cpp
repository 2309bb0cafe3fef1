// SPDX-License-Identifier: Apache-2.0
// Copies of names and sites whose memory goes away, and when session names are reclaimed.
#include <cstring>
#include <memory>
#include <string>

#include "fastprof/recorder/hot_path/detailed_range.hpp"
#include "fastprof/recorder/names/kept_site.hpp"
#include "fastprof/recorder/names/reclaim_names.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

// What a library leaves behind when it is unloaded.
struct Library {
  char name[8] = "site";
  char category[8] = "sort";
  char file[8] = "file";
  char function[8] = "calls";
  char first[8] = "first";
  char second[8] = "second";
  const char* names[2] = {first, second};
  fp::ArgType types[2] = {fp::ArgType::string, fp::ArgType::boolean};
  fp::Site site = fp::in_category(
      fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, name,
                    file, function, 7, 2, names, types),
      category);

  bool holds(const void* p) const {
    const auto at = reinterpret_cast<uintptr_t>(p), from = reinterpret_cast<uintptr_t>(this);
    return at >= from && at < from + sizeof *this;
  }
};

struct Kept {
  std::unique_ptr<fp::State> s = std::make_unique<fp::State>();
  fp::NameStore& store = s->session_names;
  ~Kept() { fp::free_names(store); }
};

constexpr fp::Site text_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "like",
                  __FILE__, "", __LINE__);

uint64_t word_of(const char* text) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(text));
}

}  // namespace

TEST(texts_that_go_away_are_copied_once) {
  Kept kept;
  Library library;
  const char* stays = "stays";
  const auto keep = [&](const char* text) {
    return fp::keep_text(kept.s.get(), kept.store, library, text);
  };
  CHECK(keep(nullptr) == nullptr);
  CHECK(keep(stays) == stays);
  const char* copy = keep(library.file);
  CHECK(!library.holds(copy));
  CHECK_EQ(std::string(copy), "file");
  CHECK(keep(library.file) == copy);
  // However full the store is.
  kept.s->max_name_bytes = 1;
  CHECK_EQ(std::string(keep(library.function)), "calls");
}

TEST(sites_that_go_away_are_copied_with_what_they_refer_to) {
  Kept kept;
  fp::State* s = kept.s.get();
  auto library = std::make_unique<Library>();
  const fp::Site* copy = fp::keep_site(s, kept.store, *library, library->site);
  CHECK(copy != nullptr && !library->holds(copy));
  CHECK(fp::keep_site(s, kept.store, *library, library->site) == copy);
  fp::Site nameless = library->site;
  nameless.name = nullptr;
  const fp::Site* unnamed = fp::keep_site(s, kept.store, *library, nameless);
  fp::Site plain = library->site;
  plain.arg_count = plain.arg_units = 0;
  plain.file = "stays";
  const fp::Site* without = fp::keep_site(s, kept.store, *library, plain);
  CHECK(without->arg_names == plain.arg_names);  // not looked at
  uint64_t texts = 0;                            // the entries, and two lists of names and types
  for (const char* text : {"site", "", "site", "sort", "file", "calls", "first", "second"})
    texts += sizeof(fp::InternEntry) + std::strlen(text) + 1;
  CHECK_EQ(kept.store.bytes, texts + 2 * (2 * sizeof(const char*) + 2));
  std::memset(static_cast<void*>(library.get()), 'x', sizeof *library);
  CHECK_EQ(std::string(copy->name), "site");
  CHECK_EQ(std::string(copy->category_name), "sort");
  CHECK_EQ(std::string(copy->file), "file");
  CHECK_EQ(std::string(copy->function), "calls");
  CHECK_EQ(copy->line, 7);
  CHECK_EQ(copy->arg_count, 2);
  CHECK_EQ(copy->arg_units, 1);
  CHECK_EQ(std::string(copy->arg_names[0]), "first");
  CHECK_EQ(std::string(copy->arg_names[1]), "second");
  CHECK(copy->arg_types[0] == fp::ArgType::string && copy->arg_types[1] == fp::ArgType::boolean);
  CHECK_EQ(copy->flags, fp::site_flag::reclaimable);
  CHECK_EQ(std::string(unnamed->name), "");
  CHECK_EQ(std::string(without->file), "stays");
}

// The memory of names and of types may go away without the other's.
TEST(lists_that_stay_are_not_copied) {
  Kept kept;
  Library library, staying;
  library.site.arg_names = staying.names;
  library.site.arg_types = staying.types;
  fp::keep_fields(kept.s.get(), kept.store, library, library.site);
  CHECK(library.site.arg_names == staying.names && library.site.arg_types == staying.types);
  CHECK_EQ(library.site.arg_count, 2);
  Library half;
  half.site.arg_types = nullptr;
  fp::keep_fields(kept.s.get(), kept.store, half, half.site);
  CHECK_EQ(half.site.arg_count, 0);
  CHECK_EQ(half.site.arg_units, 1);
  half.site = library.site;
  half.site.arg_names = nullptr;
  fp::keep_fields(kept.s.get(), kept.store, half, half.site);
  CHECK_EQ(half.site.arg_count, 0);
}

TEST(placeholders_keep_the_length_of_a_record) {
  for (uint32_t units = 0; units <= 4; ++units) {
    const fp::Site& site = fp::unread_site(units);
    CHECK_EQ(site.arg_units, units);
    CHECK_EQ(site.arg_count, 0);
    CHECK_EQ(site.mask, 0);
    CHECK_EQ(site.line, 0);
    CHECK(site.kind == fp::SiteKind::mark);
    CHECK_EQ(std::string(site.name), "<unread>");
    CHECK_EQ(std::string(site.category_name), "");
  }
}

// Texts in the blocks of an open range are moved to the new store, those of finished ones dropped.
TEST(blocks_of_open_ranges_keep_their_texts) {
  static const fp::ArgType types[] = {fp::ArgType::int64, fp::ArgType::string};
  static const char* const names[] = {"number", "text"};
  static const fp::Site site =
      fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                    "with blocks", __FILE__, "", __LINE__, 2, names, types);
  fp::State* s = fp::state();
  fp::SessionOptions options;
  options.max_name_bytes = 65536;
  options.include_open = true;
  auto session = std::make_unique<fp::Session>(options);
  session->start();
  const auto begin = [&](const std::string& suffix) {
    fp::NameUse use;
    const uint64_t args[] = {5, word_of(fp::session_string(use, "argument" + suffix))};
    const uint64_t blocks[] = {
        fp::detail_block_word(fp::DetailType::modules, 1),
        word_of(fp::session_string(use, "modules" + suffix)),
        fp::detail_block_word(fp::DetailType::op, 1),
        77,
        fp::detail_block_word(fp::DetailType::json, 1),
        word_of(fp::session_string(use, "{\"a\": \"" + suffix + "\"}")),
    };
    const fp::OpenRange open = fp::begin_detailed(s, fp::thread_block(), &site, args, blocks, 6);
    CHECK(open.slot != nullptr);
    return fp::RangeHandle{open.slot, open.begin, &site, fp::thread_block()->track->id};
  };
  fp::end_range(begin(" of the finished one"));
  const fp::RangeHandle open = begin(" of the open one");
  fp::Slot* const slot = open.slot;
  const auto* words = reinterpret_cast<const uint64_t*>(slot + 1);
  const uint64_t text_before = words[1], modules_before = words[3 + 2], json_before = words[3 + 6];
  session->stop();
  session.reset();
  const uint64_t epoch = s->name_epoch, unloads = s->unload_epoch;
  {
    fp::ScopedLock drains(s->drain_lock);
    fp::StateLock hold(s);
    CHECK(fp::reclaim_names(s));
  }
  CHECK_EQ(s->name_epoch, epoch + 1);
  CHECK_EQ(s->unload_epoch, unloads + 1);
  CHECK(words[1] != text_before && words[5] != modules_before && words[9] != json_before);
  fp::Session late(options);
  late.start();
  late.stop();
  const fp::Capture& capture = late.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 1);
  CHECK_EQ(capture.strings.size(), 3);
  const fp::RowDetails details = fp::details_of(capture, 0);
  std::string seen = capture.strings.at(capture.payload_words[capture.payload[0] + 1]);
  fp::for_each_block(details.words, details.room, [&](fp::DetailBlock block, const uint64_t* at) {
    seen += "|" + (fp::is_text(block.type) ? capture.strings.at(at[0]) : std::to_string(at[0]));
  });
  CHECK_EQ(seen,
           "argument of the open one|modules of the open one|77|{\"a\": \" of the open one\"}");
  fp::end_range(open);
}

TEST(names_are_reclaimed_from_a_quarter_of_the_bound_or_4_mb_on) {
  CHECK_EQ(fp::kWarmNameBytes, 4194304);
  fp::Session session;
  session.start();
  fp::State* s = fp::state();
  { FASTPROF_RANGE_DYNAMIC(std::string("a name")); }
  const auto reclaimed = [&](uint64_t bytes, uint64_t bound) {
    fp::ScopedLock drains(s->drain_lock);
    fp::StateLock hold(s);
    CHECK(s->session_names.table != nullptr);
    const uint64_t epoch = s->name_epoch;
    const uint64_t bytes_before = s->session_names.bytes, bound_before = s->max_name_bytes;
    s->max_name_bytes = bound;
    s->session_names.bytes = bytes;
    fp::reclaim_many_names(s);
    s->max_name_bytes = bound_before;
    if (s->name_epoch != epoch) return true;
    s->session_names.bytes = bytes_before;
    return false;
  };
  CHECK(!reclaimed(uint64_t{1} << 30, 65536));  // a session runs
  session.stop();
  const auto name_again = [&] {
    fp::Session other;
    other.start();
    { FASTPROF_RANGE_DYNAMIC(std::string("a name")); }
    other.stop();
    CHECK_EQ(count_named(other.capture(), "a name"), 1);
  };
  CHECK(!reclaimed(16383, 65536));
  CHECK(reclaimed(16384, 65536));
  name_again();
  CHECK(!reclaimed(4194303, uint64_t{64} << 20));
  CHECK(reclaimed(4194304, uint64_t{64} << 20));
  name_again();
  CHECK(!reclaimed(4194303, 16777216));
  CHECK(reclaimed(4194304, 16777216));
}

// A record that is reserved but not written hides those behind it.
TEST(names_are_not_reclaimed_while_a_record_is_being_written) {
  fp::State* s = fp::state();
  const auto reclaim = [&] {
    fp::ScopedLock drains(s->drain_lock);
    fp::StateLock hold(s);
    return fp::reclaim_names(s);
  };
  auto session = std::make_unique<fp::Session>();
  session->start();
  fp::RangeHandle open;
  {
    fp::NameUse use;
    open = fp::begin_range(*fp::session_site(use, text_site, "open"));
  }
  session->stop();
  session.reset();
  const fp::InternTable* table = s->session_names.table;
  CHECK(table != nullptr);
  fp::Slot* slot = fp::reserve(s, fp::thread_block(), 1, text_site.mask);
  CHECK(!reclaim());
  CHECK(s->session_names.table == table);
  fp::stamp_slot_any_clock(s, slot, 0, reinterpret_cast<uintptr_t>(&text_site));
  fp::store_release(&slot->end, UINT64_MAX);
  {
    fp::NameUse use;
    CHECK(use.begin(s));
    CHECK(!reclaim());
  }
  CHECK(reclaim());
  CHECK(s->session_names.table != table);
  CHECK_EQ(std::string(fp::site_of(open.slot->site)->name), "open");
  fp::end_range(open);
}
