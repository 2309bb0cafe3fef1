// SPDX-License-Identifier: Apache-2.0
// Numbers that files, other libraries and programs depend on. Layouts are asserted in
// abi_layout.hpp.
#include <cstddef>
#include <cstring>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

// Checks that enumerators have consecutive numbers.
template <class... Enums>
void numbered_from(long long first, Enums... values) {
  for (const long long value : {static_cast<long long>(values)...}) CHECK_EQ(value, first++);
}

}  // namespace

TEST(records_and_sites) {
  using Kind = fp::SiteKind;
  numbered_from(0, Kind::range, Kind::async_range, Kind::mark, Kind::counter, Kind::flow_begin,
                Kind::flow_end, Kind::memory, Kind::out_of_memory, Kind::session_membership);
  using Arg = fp::ArgType;
  numbered_from(0, Arg::int64, Arg::uint64, Arg::float64, Arg::boolean, Arg::string, Arg::pointer);
  using Tag = fp::RecordTag;
  numbered_from(0, Tag::slot, Tag::late, Tag::cross_thread_end, Tag::async_end, Tag::detailed);
  using Detail = fp::DetailType;
  numbered_from(1, Detail::counters_begin, Detail::counters_end, Detail::cpp_stack,
                Detail::python_stack, Detail::op, Detail::op_inputs, Detail::json, Detail::nothing,
                Detail::modules, Detail::op_inputs_ref, Detail::overload);
  namespace category = fp::category;
  const uint32_t bits[] = {category::user,    category::op,          category::memory,
                           category::counter, category::mark,        category::flow,
                           category::async,   category::python_call, category::runtime,
                           category::device,  category::task,        category::python_module};
  for (size_t i = 0; i < 12; ++i) CHECK_EQ(bits[i], 1u << i);
  CHECK_EQ(category::custom0, 0x10000);
}

TEST(backing_files) {
  CHECK(std::memcmp(fp::kBackingMagic, "fastprof\2store\r\n", 16) == 0);
  CHECK_EQ(fp::kBackingFormat, 1);
  CHECK_EQ(fp::kDirectoryMagic, 0x46504431);
  CHECK_EQ(fp::kChunkMagic, 0x46504331);
  CHECK_EQ(fp::kSlabMagic, 0x46505331);
  CHECK_EQ(offsetof(fp::BackingHeader, boot_id), 136);
  CHECK_EQ(offsetof(fp::BackingHeader, process_name), 176);
  CHECK_EQ(offsetof(fp::BackingHeader, reserved), 240);
  CHECK_EQ(offsetof(fp::FileSession, dropped), 32);
  CHECK_EQ(offsetof(fp::FileSession, reserved), 160);
  CHECK_EQ(offsetof(fp::ChunkLabel, name), 32);
  CHECK_EQ(fp::kFileKnots, 500);
  CHECK_EQ(fp::kFileSessionsAt, 4096);
  CHECK_EQ(fp::kKnotBanksAt, 16384);
  CHECK_EQ(fp::kFirstDirectoryAt, 65536);
  using Entry = fp::EntryType;
  numbered_from(1, Entry::site, Entry::text, Entry::module, Entry::metadata, Entry::stack);
}

TEST(scopes_are_pytorchs) {
  using Scope = fp::RecordScope;
  numbered_from(0, Scope::FUNCTION, Scope::BACKWARD_FUNCTION, Scope::TORCHSCRIPT_FUNCTION,
                Scope::KERNEL_FUNCTION_DTYPE, Scope::CUSTOM_CLASS, Scope::BUILD_FEATURE,
                Scope::LITE_INTERPRETER, Scope::USER_SCOPE, Scope::STATIC_RUNTIME_OP,
                Scope::STATIC_RUNTIME_MODEL, Scope::NUM_SCOPES);
}

TEST(drop_causes) {
  const char* const names[] = {"bound",       "overwritten", "in_flight",    "reentrant",
                               "thread_exit", "clock",       "spill_failed", "names",
                               "ends",        "device",      "cause_10"};
  for (size_t i = 0; i < 11; ++i)
    CHECK_EQ(std::string(fp::drop_cause_name(fp::DropCause(i))), names[i]);
  CHECK_EQ(std::string(fp::drop_cause_name(fp::DropCause(16))), "unknown");
}
