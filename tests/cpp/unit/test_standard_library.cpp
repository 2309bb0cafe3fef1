// SPDX-License-Identifier: Apache-2.0
// Where standard libraries keep a string's characters and a map's nodes: bytes written by hand for
// each of them, and objects of the one that this program is built with.
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>

#include "adapters/torch/layout/checked_memory.hpp"
#include "adapters/torch/layout/direct_memory.hpp"
#include "adapters/torch/layout/op_name.hpp"
#include "adapters/torch/layout/standard_library.hpp"
#include "check.hpp"
#include "fastprof/base/config.hpp"

namespace torch_adapter = fastprof::torch_adapter;

namespace {

using torch_adapter::LibcxxAlternateLayout;
using torch_adapter::LibcxxLayout;
using torch_adapter::LibstdcxxLayout;

constexpr char kLongText[] = "aten::a_name_that_no_library_keeps_inside";

// The words of an object, in the order of addresses.
using Words = std::array<uint64_t, 8>;

uintptr_t address_of(const void* object) {
  return reinterpret_cast<uintptr_t>(object);
}

template <class Layout>
std::string text_in(const void* string) {
  torch_adapter::CheckedMemory checked;
  const auto bounds = Layout::load_text(checked, address_of(string));
  const auto direct = Layout::load_text(torch_adapter::direct_memory, address_of(string));
  CHECK(!checked.failed() && bounds.text == direct.text && bounds.length == direct.length);
  return {reinterpret_cast<const char*>(bounds.text), bounds.length};
}

// The bytes of a string that keeps its text itself.
template <class Layout>
Words short_string(const std::string& text) {
  Words words;
  words.fill(~uint64_t{0});  // whatever was there before
  auto* const bytes = reinterpret_cast<char*>(words.data());
  constexpr bool alternate = std::is_same_v<Layout, LibcxxAlternateLayout>;
  std::memcpy(bytes + (alternate ? 0 : 1), text.c_str(), text.size() + (text.size() < 23 ? 1 : 0));
  if (alternate)
    bytes[23] = static_cast<char>(text.size());
  else
    bytes[0] = static_cast<char>(text.size() << 1);
  return words;
}

}  // namespace

TEST(libcxx_strings_are_read_short_and_long) {
  for (const std::string text : {"", "a", "aten::add", "aten::linear_backward_"}) {  // 22 at most
    CHECK_EQ(text_in<LibcxxLayout>(short_string<LibcxxLayout>(text).data()), text);
    CHECK_EQ(text_in<LibcxxAlternateLayout>(short_string<LibcxxAlternateLayout>(text).data()),
             text);
  }
  const size_t length = sizeof kLongText - 1;
  const Words plain{49, length, address_of(kLongText)};  // capacity 48, lowest bit set
  CHECK_EQ(text_in<LibcxxLayout>(plain.data()), std::string(kLongText));
  const Words alternate{address_of(kLongText), length, uint64_t{1} << 63 | 48};
  CHECK_EQ(text_in<LibcxxAlternateLayout>(alternate.data()), std::string(kLongText));
}

TEST(the_strings_of_this_library_are_read) {
  for (size_t length = 0; length < 40; ++length) {
    const std::string text(length, static_cast<char>('a' + length % 26));
    CHECK_EQ(text_in<torch_adapter::StandardLibrary>(&text), text);
  }
  CHECK_EQ(size_t{torch_adapter::StandardLibrary::kStringBytes}, sizeof(std::string));
}

TEST(a_name_is_a_string_or_an_operators_with_any_library) {
  const auto check = [](auto layout, const Words& string, const char* expected) {
    using Layout = decltype(layout);
    Words words = string;
    words[Layout::kStringBytes / 8] = 0xFFFFFFFF00000000u;  // the index has four bytes at most
    const auto name = [&] {
      const auto read = torch_adapter::read_name<Layout>(address_of(words.data()) - 160, 160,
                                                         torch_adapter::direct_memory);
      return std::pair(std::string(read.text, read.length), read.of_schema);
    };
    CHECK(name() == std::pair(std::string(expected), false));
    words[0] = address_of(string.data());  // a FunctionSchema begins with its name
    words[Layout::kStringBytes / 8] = 0xFFFFFFFF00000001u;
    CHECK(name() == std::pair(std::string(expected), true));
  };
  check(LibcxxLayout{}, short_string<LibcxxLayout>("aten::mm"), "aten::mm");
  check(LibcxxAlternateLayout{}, short_string<LibcxxAlternateLayout>("aten::mm"), "aten::mm");
  check(LibcxxAlternateLayout{}, {address_of(kLongText), sizeof kLongText - 1, uint64_t{1} << 63},
        kLongText);
  check(LibstdcxxLayout{}, {address_of(kLongText), sizeof kLongText - 1}, kLongText);
}

TEST(an_empty_map_is_recognised_and_no_other) {
  const std::unordered_map<std::string, torch_adapter::TextBounds> map;
  auto& memory = torch_adapter::direct_memory;
  CHECK(torch_adapter::StandardLibrary::is_empty_map(memory, address_of(&map)));
  CHECK_EQ(size_t{torch_adapter::StandardLibrary::kMapBytes}, sizeof map);
  Words libcxx{0, 0, 0, 0, 0x3F800000};
  CHECK(LibcxxLayout::is_empty_map(memory, address_of(libcxx.data())));
  CHECK(!LibstdcxxLayout::is_empty_map(memory, address_of(libcxx.data())));
  for (uint64_t& word : libcxx) {
    if (&word == &libcxx[5]) break;
    ++word;
    CHECK(!LibcxxLayout::is_empty_map(memory, address_of(libcxx.data())));
    --word;
  }
}

TEST(the_nodes_of_a_map_are_found) {
  using Map = std::unordered_map<std::string, std::array<uint64_t, 2>>;
  const Map map{{"one", {1, 2}}};
  auto& memory = torch_adapter::direct_memory;
  const uintptr_t at = address_of(&map);
  using Library = torch_adapter::StandardLibrary;
  CHECK_EQ(memory.load<uint64_t>(at + torch_adapter::kMapSize), uint64_t{1});
  const auto node = memory.load<uintptr_t>(at + torch_adapter::kMapFirstNode);
  CHECK_EQ(text_in<Library>(reinterpret_cast<const void*>(node + Library::kNodeKey)),
           std::string("one"));
  CHECK_EQ(memory.load<uint64_t>(node + Library::kNodeKey + Library::kStringBytes), uint64_t{1});
}
