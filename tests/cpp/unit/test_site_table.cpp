// SPDX-License-Identifier: Apache-2.0
// SiteTable: sites, texts and Python stacks are copied once and numbered in order, also after an
// unload.
#include <string>
#include <utility>
#include <vector>

#include "fastprof/session/site_table.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

fp::Site site_named(const char* name) {
  fp::Site site{};
  site.name = name;
  site.mask = fp::category::op;
  return site;
}

}  // namespace

TEST(sites_are_copied_once) {
  static const char* const names[] = {"first", nullptr};
  static const fp::ArgType types[] = {fp::ArgType::boolean, fp::ArgType::string};
  fp::Site site = site_named("site"), other = site_named("other");
  site.category_name = "category";
  site.function = "function";
  site.line = 3;
  site.color = 4;
  site.kind = fp::SiteKind::mark;
  site.scope = fp::RecordScope::USER_SCOPE;
  site.arg_count = 2;
  site.arg_names = names;
  site.arg_types = types;
  site.device_type = 5;
  site.device_index = 6;
  other.arg_count = 2;  // without names
  fp::SiteTable table;
  CHECK_EQ(table.index_of(&site), 0);
  CHECK_EQ(table.index_of(&other), 1);
  CHECK_EQ(table.index_of(&site), 0);
  CHECK_EQ(table.index_of(&site), 0);
  CHECK_EQ(table.sites.size(), 2);
  const fp::SiteInfo& copy = table.sites[0];
  CHECK(copy.name == "site" && copy.category == "category" && copy.function == "function");
  CHECK(copy.file.empty() && copy.line == 3 && copy.color == 4);
  CHECK(copy.mask == fp::category::op && copy.kind == fp::EventKind::mark);
  CHECK(copy.scope == fp::RecordScope::USER_SCOPE);
  CHECK(copy.arg_names == (std::vector<std::string>{"first", ""}));
  CHECK(copy.arg_types[1] == fp::ArgType::string && copy.arg_types.size() == 2);
  CHECK(copy.device_type == 5 && copy.device_index == 6);
  CHECK(table.sites[1].arg_names.empty() && table.sites[1].arg_types.empty());
}

TEST(many_sites_keep_their_numbers) {
  std::vector<fp::Site> sites(2000, site_named("site"));
  std::vector<std::string> names;
  for (size_t i = 0; i < sites.size(); ++i) names.push_back(std::to_string(i));
  for (size_t i = 0; i < sites.size(); ++i) sites[i].name = names[i].c_str();
  fp::SiteTable table;
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < sites.size(); ++i) CHECK_EQ(table.index_of(&sites[i]), i);
  for (size_t i = sites.size(); i > 0; --i) CHECK_EQ(table.index_of(&sites[i - 1]), i - 1);
  CHECK_EQ(table.sites.size(), 2000);
  CHECK_EQ(table.sites[1999].name, "1999");
}

TEST(a_site_has_a_copy_for_each_device) {
  const fp::Site site = site_named("site"), other = site_named("other");
  fp::SiteTable table;
  CHECK_EQ(table.device_index_of(&site, 0), 0);  // also the first one's numbers may be 0
  CHECK_EQ(table.device_index_of(&site, 0x0301), 1);
  CHECK_EQ(table.device_index_of(&site, 0x0301), 1);
  CHECK_EQ(table.device_index_of(&other, 0x0301), 2);
  CHECK_EQ(table.device_index_of(&site, 0xFF80), 3);
  CHECK_EQ(table.device_index_of(&site, 0x0301), 1);
  CHECK_EQ(table.index_of(&site), 4);
  CHECK(table.sites[0].device_type == 0 && table.sites[0].device_index == 0);
  CHECK(table.sites[1].device_type == 1 && table.sites[1].device_index == 3);
  CHECK(table.sites[3].device_type == -128 && table.sites[3].device_index == -1);
  CHECK_EQ(table.sites[2].name, "other");
}

TEST(texts_and_stacks_are_numbered_once) {
  const char text[] = "text", same[] = "text";
  fp::SiteTable table;
  CHECK_EQ(table.string_index(text), 0);
  CHECK_EQ(table.string_index(same), 1);  // by address
  CHECK_EQ(table.string_index(text), 0);
  CHECK_EQ(table.string_index(nullptr), 2);
  CHECK_EQ(table.string_index(nullptr), 2);
  CHECK(table.strings == (std::vector<std::string>{"text", "text", ""}));
  CHECK_EQ(table.stack_index(0), 3);  // an id may be 0
  CHECK_EQ(table.stack_index(70), 4);
  CHECK_EQ(table.stack_index(70), 4);
  CHECK_EQ(table.stack_index(0), 3);
  CHECK_EQ(table.stack_index(71), 5);
  CHECK_EQ(table.stack_index(70), 4);
  CHECK(table.python_stacks ==
        (std::vector<std::pair<uint64_t, uint32_t>>{{0, 3}, {70, 4}, {71, 5}}));
  CHECK_EQ(table.strings.size(), 6);
}

TEST(addresses_are_forgotten_after_an_unload) {
  fp::Site site = site_named("old");
  char text[] = "old";
  fp::SiteTable table;
  CHECK_EQ(table.index_of(&site), 0);
  CHECK_EQ(table.device_index_of(&site, 1), 1);
  CHECK_EQ(table.string_index(text), 0);
  CHECK_EQ(table.stack_index(7), 1);
  site.name = "new";  // of another library, at the same addresses
  text[0] = 'c';
  table.forget_addresses();
  CHECK_EQ(table.index_of(&site), 2);
  CHECK_EQ(table.device_index_of(&site, 1), 3);
  CHECK_EQ(table.string_index(text), 2);
  CHECK_EQ(table.stack_index(7), 1);  // ids are not addresses
  CHECK_EQ(table.sites[0].name, "old");
  CHECK_EQ(table.sites[2].name, "new");
  CHECK_EQ(table.sites[3].name, "new");
  CHECK(table.strings == (std::vector<std::string>{"old", "", "cld"}));
}
