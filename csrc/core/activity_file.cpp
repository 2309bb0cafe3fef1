// SPDX-License-Identifier: Apache-2.0
// Writing and reading activity files: see activity_file.hpp.
#include "core/activity_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "fastprof/base/error.hpp"
#include "fastprof/platform/common/files.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

constexpr uint64_t kMagic = 0x314F495641504600u;  // "\0FPAVIO1"

struct PortionHead {
  uint64_t magic = kMagic;
  uint64_t size = 0;
  uint64_t checksum = 0;
};

uint64_t checksum_of(std::string_view contents) noexcept {
  uint64_t sum = 14695981039346656037u;
  for (const char byte : contents) sum = (sum ^ static_cast<uint8_t>(byte)) * 1099511628211u;
  return sum;
}

std::string error_text() {
  return std::strerror(errno);
}

// ---- contents -----------------------------------------------------------------------------------

class Packer {
 public:
  template <class Number>
  void number(Number value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<uint64_t>(value.size()));
    bytes_ += value;
  }
  template <class Item, class Add>
  void list(const std::vector<Item>& items, const Add& add) {
    number(static_cast<uint64_t>(items.size()));
    for (const Item& item : items) add(item);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Packer wrote. Reading beyond the end, or a list longer than the rest, makes the whole
// invalid; such reads return zeros.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    Number value{};
    if (bytes_.size() < sizeof value) {
      fail();
    } else {
      std::memcpy(&value, bytes_.data(), sizeof value);
      bytes_.remove_prefix(sizeof value);
    }
    return value;
  }
  std::string text() {
    const auto size = number<uint64_t>();
    if (size > bytes_.size()) {
      fail();
      return {};
    }
    std::string value(bytes_.substr(0, static_cast<size_t>(size)));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return value;
  }
  template <class Item, class Read>
  std::vector<Item> list(size_t least_bytes, const Read& read) {
    std::vector<Item> items;
    const auto count = number<uint64_t>();
    if (count > bytes_.size() / least_bytes) {
      fail();
      return items;
    }
    items.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count && valid_; ++i) items.push_back(read());
    return items;
  }
  bool complete() const noexcept { return valid_ && bytes_.empty(); }

 private:
  void fail() {
    valid_ = false;
    bytes_ = {};
  }

  std::string_view bytes_;
  bool valid_ = true;
};

std::string pack(const std::string& backend, const Activities& from) {
  Packer out;
  out.text(backend);
  out.number(from.dropped);
  out.number(static_cast<uint8_t>(from.annotates));
  out.list(from.sites, [&out](const SiteInfo& site) {
    out.text(site.name);
    out.text(site.category);
    out.number(site.mask);
    out.number(site.kind);
    out.number(site.scope);
    out.number(site.device_type);
    out.number(site.device_index);
    out.list(site.arg_names, [&out](const std::string& name) { out.text(name); });
    out.list(site.arg_types, [&out](ArgType type) { out.number(type); });
  });
  out.list(from.places, [&out](const ActivityPlace& place) {
    out.number(place.device_index);
    out.number(place.id);
    out.text(place.name);
    out.text(place.device_kind);
  });
  out.list(from.texts, [&out](const std::string& text) { out.text(text); });
  out.list(from.words, [&out](uint64_t word) { out.number(word); });
  out.list(from.rows, [&out](const Activity& row) {
    out.number(row.begin);
    out.number(row.end);
    out.number(row.words);
    out.number(row.correlation);
    out.number(row.site);
    out.number(row.place);
    out.number(row.text);
  });
  return out.take();
}

// Returns whether the contents are valid. backend: empty for an end mark.
bool unpack(std::string_view contents, std::string& backend, Activities& to) {
  Unpacker in(contents);
  backend = in.text();
  if (backend.empty()) return in.complete();
  to.dropped = in.number<uint64_t>();
  to.annotates = in.number<uint8_t>() != 0;
  to.sites = in.list<SiteInfo>(8, [&in] {
    SiteInfo site;
    site.name = in.text();
    site.category = in.text();
    site.mask = in.number<uint32_t>();
    site.kind = in.number<EventKind>();
    site.scope = in.number<RecordScope>();
    site.device_type = in.number<int16_t>();
    site.device_index = in.number<int16_t>();
    site.arg_names = in.list<std::string>(8, [&in] { return in.text(); });
    site.arg_types = in.list<ArgType>(1, [&in] { return in.number<ArgType>(); });
    return site;
  });
  to.places = in.list<ActivityPlace>(8, [&in] {
    ActivityPlace place;
    place.device_index = in.number<int32_t>();
    place.id = in.number<int64_t>();
    place.name = in.text();
    place.device_kind = in.text();
    return place;
  });
  to.texts = in.list<std::string>(8, [&in] { return in.text(); });
  to.words = in.list<uint64_t>(8, [&in] { return in.number<uint64_t>(); });
  to.rows = in.list<Activity>(40, [&in] {
    Activity row;
    row.begin = in.number<uint64_t>();
    row.end = in.number<uint64_t>();
    row.words = in.number<uint64_t>();
    row.correlation = in.number<uint32_t>();
    row.site = in.number<uint32_t>();
    row.place = in.number<uint32_t>();
    row.text = in.number<uint32_t>();
    return row;
  });
  if (!in.complete()) return false;
  for (const SiteInfo& site : to.sites) {
    for (const ArgType type : site.arg_types)
      if (type > ArgType::pointer) return false;
    if ((site.kind != EventKind::range && site.kind != EventKind::async_range) ||
        site.scope >= RecordScope::NUM_SCOPES || site.arg_names.size() != site.arg_types.size())
      return false;
  }
  try {
    check_activities(to);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Returns a text that identifies a site or place: equal items have equal texts.
std::string key_of(const SiteInfo& site) {
  Packer key;
  key.text(site.name);
  key.text(site.category);
  key.number(site.mask);
  key.number(site.kind);
  key.number(site.device_type);
  key.number(site.device_index);
  for (const std::string& name : site.arg_names) key.text(name);
  for (const ArgType type : site.arg_types) key.number(type);
  return key.take();
}
std::string key_of(const ActivityPlace& place) {
  Packer key;
  key.number(place.device_index);
  key.number(place.id);
  key.text(place.device_kind);
  return key.take();
}
const std::string& key_of(const std::string& text) {
  return text;
}

// Appends the items that `all` lacks. Returns the index in `all` of each item of `more`.
template <class Item>
std::vector<uint32_t> join(std::vector<Item>& all, const std::vector<Item>& more) {
  std::unordered_map<std::string, uint32_t> known;
  for (size_t i = 0; i < all.size(); ++i) known.emplace(key_of(all[i]), static_cast<uint32_t>(i));
  std::vector<uint32_t> index;
  for (const Item& item : more) {
    const auto [at, fresh] = known.try_emplace(key_of(item), static_cast<uint32_t>(all.size()));
    if (fresh) all.push_back(item);
    index.push_back(at->second);
  }
  return index;
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  // Returns the size of the file in bytes; -1 if it is not a regular file that can be read.
  int64_t size() const {
    struct stat facts {};
    const bool usable = number >= 0 && ::fstat(number, &facts) == 0 && S_ISREG(facts.st_mode);
    return usable ? static_cast<int64_t>(facts.st_size) : -1;
  }

  const int number;
};

}  // namespace

ActivityFileWriter::ActivityFileWriter(const std::string& path)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0)
    raise<IoError>(path + ": cannot be created (" + error_text() + "). Choose another folder.");
}

ActivityFileWriter::~ActivityFileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ActivityFileWriter::add(const std::string& backend, const Activities& activities) {
  if (descriptor_ < 0 || (activities.rows.empty() && activities.dropped == 0)) return;
  write_portion(pack(backend, activities));
}

void ActivityFileWriter::finish() {
  if (descriptor_ < 0) return;
  Packer mark;
  mark.text("");
  write_portion(mark.take());
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void ActivityFileWriter::write_portion(const std::string& contents) {
  PortionHead head;
  head.size = contents.size();
  head.checksum = checksum_of(contents);
  std::string portion(reinterpret_cast<const char*>(&head), sizeof head);
  portion += contents;
  for (size_t done = 0; done < portion.size();) {
    const ssize_t written = ::write(descriptor_, portion.data() + done, portion.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {  // readers ignore an incomplete portion and all after it
      problem_ =
          "work of devices is missing: " + path_ + " cannot be written (" + error_text() + ")";
      ::close(std::exchange(descriptor_, -1));
      return;
    }
    done += static_cast<size_t>(written);
  }
}

void append_activities(Activities& all, const Activities& more) {
  const std::vector<uint32_t> sites = join(all.sites, more.sites);
  const std::vector<uint32_t> places = join(all.places, more.places);
  const std::vector<uint32_t> texts = join(all.texts, more.texts);
  const uint64_t words = all.words.size();
  all.words.insert(all.words.end(), more.words.begin(), more.words.end());
  all.rows.reserve(all.rows.size() + more.rows.size());
  for (Activity row : more.rows) {
    row.site = sites[row.site];
    row.place = places[row.place];
    if (row.text != kNoPayload) row.text = texts[row.text];
    row.words += words;
    all.rows.push_back(row);
  }
  all.dropped += more.dropped;
  all.annotates = all.annotates || more.annotates;
}

ActivityFile read_activity_file(const std::string& path, uint64_t max_bytes) {
  const Descriptor file(path);
  const int64_t size = file.size();
  if (size < 0) raise<IoError>(path + ": cannot be read (" + error_text() + ")");
  if (static_cast<uint64_t>(size) > max_bytes)
    raise<IoError>(path + ": larger than the limit of " + std::to_string(max_bytes) + " bytes");
  ActivityFile found;
  std::map<std::string, Activities> by_backend;
  uint64_t at = 0;
  std::string contents;
  while (at < static_cast<uint64_t>(size)) {
    PortionHead head;
    const uint64_t left = static_cast<uint64_t>(size) - at;
    if (left < sizeof head || !platform::read_at(file.number, at, &head, sizeof head) ||
        head.magic != kMagic || head.size > left - sizeof head)
      break;
    contents.resize(static_cast<size_t>(head.size));
    std::string backend;
    Activities portion;
    if (!platform::read_at(file.number, at + sizeof head, contents.data(), contents.size()) ||
        checksum_of(contents) != head.checksum || !unpack(contents, backend, portion))
      break;
    if (backend.empty()) {
      found.ended = true;
    } else {
      append_activities(by_backend[backend], portion);
    }
    at += sizeof head + head.size;
  }
  found.damaged_bytes = static_cast<uint64_t>(size) - at;
  for (auto& [backend, activities] : by_backend) found.of_backends.push_back(std::move(activities));
  return found;
}

bool activity_file_ended(const std::string& path) {
  constexpr uint64_t kMarkBytes = sizeof(PortionHead) + sizeof(uint64_t);
  const Descriptor file(path);
  const int64_t size = file.size();
  PortionHead head;
  return size >= static_cast<int64_t>(kMarkBytes) &&
         platform::read_at(file.number, static_cast<uint64_t>(size) - kMarkBytes, &head,
                           sizeof head) &&
         head.magic == kMagic && head.size == sizeof(uint64_t);
}

}  // namespace devices
FASTPROF_NAMESPACE_END
