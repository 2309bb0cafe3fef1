// SPDX-License-Identifier: Apache-2.0
// JSON from elsewhere: which texts are one value, and which are not.
#include <string>
#include <string_view>

#include "check.hpp"
#include "fastprof/base/json_check.hpp"

namespace {

void accepts(std::string_view text) {
  if (!fastprof::is_json_value(text)) CHECK_EQ(text, "is one value");
}
void refuses(std::string_view text) {
  if (fastprof::is_json_value(text)) CHECK_EQ(text, "is no value");
}
std::string in_quotes(std::string_view text) {
  return '"' + std::string(text) + '"';
}

}  // namespace

TEST(numbers_of_json) {
  for (const char* text : {"0", "-0", "7", "-12", "90", "0.5", "-0.05", "10.0", "1e5", "1E5",
                           "1e+5", "1E-05", "0e0", "1.25e-9", "123456789012345678901234567890"})
    accepts(text);
  for (const char* text :
       {"-",  "+1",  "--1", "01",    "-01",   "00",       ".5",    "1.",   "1.e5",  "-.5",
        "1e", "1e+", "1e-", "1e+-1", "1e-+1", "1ee1",     "1e1.5", "1..5", "1.5.5", "0x1",
        "1a", "/",   ":",   "1/",    "1:",    "Infinity", "NaN",   "-e1"})
    refuses(text);
}

TEST(texts_of_json) {
  accepts(in_quotes(""));
  // clang-format off
  for (const char* text :
       {"a b", "\x7F", "'", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0041", "\\u09af",
        "\\uAF09x", "\\u12345", "\\\\u", "\\u0041\\u0042", "\\ud800", "\xC3\xA9", "\xF0\x9F\x98\x80",
        "\xED\x9F\xBF"})
    // clang-format on
    accepts(in_quotes(text));
  for (const char* text :
       {"\x1F",     "\n",       "\t",           "\\",      "\\x",     "\\a",     "\\'",
        "\\u",      "\\u1",     "\\u12",        "\\u123",  "\\u123g", "\\u/000", "\\u:000",
        "\\u@000",  "\\uG000",  "\\u`000",      "\\u000g", "\\U0041", "\xFF",    "\xC3",
        "\xE2\x82", "\xC0\x80", "\xED\xA0\x80", "\"",      "a\"b"})
    refuses(in_quotes(text));
  refuses(in_quotes(std::string_view("\0", 1)));
  for (const char* text :
       {"\"", "\"abc", "\"\\", "\"\\\"", "\"\\u", "\"\\u004", "\"\\u0041", "'a'", "a"})
    refuses(text);
  // What lies behind the end is not read.
  refuses(std::string_view("\"\\u0041\"").substr(0, 5));
  refuses(std::string_view("\"\xC3\xA9\"").substr(0, 2));
  refuses(std::string_view("\"a\"").substr(0, 2));
  refuses(std::string_view("true").substr(0, 3));
}

TEST(arrays_and_objects_of_json) {
  for (const char* text :
       {"[]", "{}", "[1]", "[1,2,3]", "[[],{}]", "{\"a\":1}", "{\"a\":1,\"a\":2}",
        "{\"\":{\"\":[]}}", "[\"a\",null,true,false,-1.5e3,{\"b\":[0]}]"})
    accepts(text);
  for (const char* text : {"[",          "]",         "{",         "}",
                           "[1",         "[1,",       "[,",        "[,]",
                           "[1,]",       "[,1]",      "[1 2]",     "[1}",
                           "{]",         "[1]]",      "[]]",       "{}}",
                           "{1:2}",      "{a:1}",     "{\"a\"}",   "{\"a\":}",
                           "{\"a\" 1}",  "{\"a\",1}", "{\"a\":1",  "{\"a\":1,",
                           "{\"a\":1,}", "{,}",       "{\"a\":1]", "{\"a\":1 \"b\":2}",
                           "{null:1}",   "[\"a\":1]", "[1;2]"})
    refuses(text);
}

// 200 values around one are the most.
TEST(nesting_of_json_is_limited) {
  const auto nested = [](size_t depth, const std::string& open, const std::string& inner,
                         const std::string& close) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += open;
    text += inner;
    for (size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  accepts(nested(200, "[", "1", "]"));
  refuses(nested(201, "[", "1", "]"));
  accepts(nested(201, "[", "", "]"));
  refuses(nested(202, "[", "", "]"));
  accepts(nested(200, "{\"a\":", "1", "}"));
  refuses(nested(201, "{\"a\":", "1", "}"));
  std::string wide = "[";  // many neighbours are not deep
  for (int i = 0; i < 1000; ++i) wide += "[],{},";
  accepts(wide + "0]");
}
