// SPDX-License-Identifier: Apache-2.0
// Appends libtorch's metadata of a collective as keyword inputs: see collective_metadata.hpp.
#include "adapters/torch/ops/collective_metadata.hpp"

#include <cstdlib>
#include <string>
#include <unordered_map>

#include "adapters/torch/layout/loaded_library.hpp"
#include "adapters/torch/layout/symbol_names.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

using Texts = std::unordered_map<std::string, std::string>;  // JSON values by name

// Mirrors torch::profiler::impl::SaveNcclMetaConfig: four flags. Padded beyond its actual size.
struct Config {
  bool shorten_lists, describe, addresses_of_inputs, addresses_of_outputs;
  unsigned char unused[60];
};
Texts (*g_describe)(const RecordFunctionView&, const Config&) = nullptr;

bool put_value(InputWords& out, const std::string& json) {
  const size_t length = json.size();
  if (length >= 2 && json.front() == '"' && json.back() == '"')
    return out.put_text(json.data() + 1, length - 2);
  if (json == "true" || json == "false")  // since 2.14; strings before
    return out.put_number(InputKind::boolean, json == "true");
  char* end = nullptr;
  const long long number = std::strtoll(json.c_str(), &end, 10);
  if (length != 0 && *end == '\0') return out.put_integer(number);
  return out.put_text(json.data(), length);
}

}  // namespace

void prepare_collective_metadata() noexcept {
  const char* why = nullptr;
  void* library = loaded_libtorch(&why);
  if (library == nullptr) return;
  decltype(g_describe) found = nullptr;
  if (find_function(library, kSymbolNames.collective_metadata, found)) g_describe = found;
}

uint32_t append_collective_metadata(const RecordFunctionView& record_function, uint64_t* words,
                                    uint32_t used, uint32_t capacity) noexcept {
  if (g_describe == nullptr || used + 2 > capacity) return used;
  if (used == 0) words[used++] = 0;
  InputWords out(words + used - 1,
                 capacity - used + 1);  // its word 0: the last word used
  uint64_t count = 0;
  try {
    for (const auto& [name, value] :
         g_describe(record_function, Config{true, true, false, false, {}})) {
      uint64_t* const before = out.position();
      if (!out.put_text(name.data(), name.size()) || !put_value(out, value)) {
        out.back_to(before);
        break;
      }
      ++count;
    }
  } catch (...) {  // keep what was put
  }
  words[0] += count << 16;
  return static_cast<uint32_t>(out.position() - words);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
