// SPDX-License-Identifier: Apache-2.0
// Producers and operation counts read from inputs. The counts are those of torch 2.13 for the same
// calls.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "../legacy_checks.hpp"
#include "fastprof/legacy/flops.hpp"
#include "fastprof/legacy/input_shapes.hpp"

using namespace fastprof;

namespace {

Value tensor(const std::vector<int64_t>& shape, const void* pointer = nullptr) {
  TensorDescription description;
  description.shape = shape;
  description.pointer = pointer;
  return Value(description);
}

struct Case {
  char mark;
  std::string name;
  std::vector<Value> inputs;
  std::string flops;
  std::string line;
};

std::vector<int64_t> numbers(const std::string& text, char between) {
  std::vector<int64_t> found;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, between);) found.push_back(std::stoll(word));
  return found;
}

Value value_of(const std::string& word) {
  if (word == "-") return Value();
  if (word[0] == 'T') return tensor(numbers(word.substr(1), 'x'));
  if (word[0] == '(') return Value(numbers(word.substr(1, word.size() - 2), ','));
  if (word.find_first_not_of("-0123456789") == std::string::npos) return Value(std::stoll(word));
  return Value(word);
}

// Reads tests/cases/flops.txt, which explains its lines; test_flops.py reads it, too.
std::vector<Case> read_cases() {
  const char* root = std::getenv("FASTPROF_TEST_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/tests/cases/flops.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Case one{line[0], {}, {}, {}, line};
    std::istringstream words(line.substr(1));
    words >> one.name;
    std::string word;
    while (words >> word && word != "=") one.inputs.push_back(value_of(word));
    words >> one.flops;
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace

TEST(the_table_of_cases) {
  const std::vector<Case> cases = read_cases();
  CHECK(cases.size() > 50);
  for (const Case& one : cases) {
    const bool counted = one.mark != '*' && one.flops != "none";
    const uint64_t expected = counted ? std::stoull(one.flops) : 0;
    if (estimate_flops(one.name, one.inputs) != expected)
      std::fprintf(stderr, "%s\n", one.line.c_str());
    CHECK_EQ(estimate_flops(one.name, one.inputs), expected);
  }
}

TEST(producers_follow_tensors_by_address_until_they_are_freed) {
  int a = 0, b = 0;
  TensorProducers producers;
  const std::vector<Value> outputs = {Value(3), tensor({1}, &a), tensor({1}, &b)};
  producers.produced(9, outputs);
  const std::vector<Value> inputs = {tensor({1}, &b), Value(1), tensor({1}, &inputs),
                                     Value::list({tensor({1}, &a), Value(2)}), tensor({1})};
  const std::vector<ProducerOp> expected = {{9, 2}, {}, {}, {9, 1}, {}};
  CHECK(producers.of_inputs(inputs) == expected);
  const std::vector<Value> newer = {tensor({1}, &b)};
  producers.produced(10, newer);
  producers.produced(10, std::vector<Value>{tensor({1})});  // without an address
  producers.freed(&a);
  const std::vector<ProducerOp> later = {{10, 0}, {}, {}, {}, {}};
  CHECK(producers.of_inputs(inputs) == later);
}
