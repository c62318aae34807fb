#include "tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace rookery {
namespace {

using nlohmann::json;

struct TypeName {
  at::ScalarType type;
  const char* name;
  std::size_t size;
};
constexpr std::array<TypeName, 5> kTypes = {{{at::kFloat, "F32", 4},
                                             {at::kDouble, "F64", 8},
                                             {at::kLong, "I64", 8},
                                             {at::kInt, "I32", 4},
                                             {at::kByte, "U8", 1}}};
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeader = 100 << 20;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

const TypeName& type_of(at::ScalarType type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return t.type == type; });
  ROOKERY_CHECK(found != kTypes.end(), "no safetensors name for type {}", c10::toString(type));
  return *found;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// The bytes that a tensor of this shape takes, or nothing if that overflows.
std::optional<std::size_t> size_in_bytes(std::span<const std::int64_t> shape, std::size_t element) {
  std::size_t bytes = element;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(dimension), &bytes)) return {};
  }
  return bytes;
}

// One entry of the header, checked for itself: offsets in order and as far apart as type and shape say.
SafetensorsFile::Entry parse_entry(const std::string& path, const std::string& name, const json& value) {
  const auto wrong = [&](std::string_view why) { return InputError("{}: tensor '{}' {}", path, name, why); };
  try {
    const auto type_name = value.at("dtype").get<std::string>();
    const auto* type =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return t.name == type_name; });
    if (type == kTypes.end()) throw wrong(fmt::format("has the unsupported type {}", type_name));
    const auto offsets = value.at("data_offsets").get<std::array<std::size_t, 2>>();
    SafetensorsFile::Entry entry{name, type->type, value.at("shape").get<std::vector<std::int64_t>>(), offsets[0],
                                 offsets[1]};
    const auto size = size_in_bytes(entry.shape, type->size);
    if (!size || entry.end < entry.begin || entry.end - entry.begin != *size) {
      throw wrong("has a shape that does not fit its offsets");
    }
    return entry;
  } catch (const json::exception&) {
    throw wrong("has a malformed header entry");
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::vector<at::Tensor> contents;
  std::size_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const at::Tensor& content = contents.emplace_back(entry.tensor.detach().cpu().contiguous());
    header[entry.name] = {{"dtype", type_of(content.scalar_type()).name},
                          {"shape", content.sizes().vec()},
                          {"data_offsets", {offset, offset + content.nbytes()}}};
    offset += content.nbytes();
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');  // the data starts aligned

  FileWriter file(path);
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const at::Tensor& content : contents) file.write(bytes_of(content));
  file.finish();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string name = path.string();
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) throw InputError("{}: is too short for a safetensors file", name);
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
    throw InputError("{}: the header claims {} bytes, but the file has only {}", name, length, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) throw InputError("{}: the header is not valid JSON", name);

  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      if (!value.is_object()) throw InputError("{}: the metadata is not an object", name);
      for (const auto& [k, v] : value.items()) metadata_[k] = v.is_string() ? v.get<std::string>() : v.dump();
    } else {
      entries_.push_back(parse_entry(name, key, value));
    }
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });

  // End to end from 0 to the end of the file: no overlap, no gap, nothing outside.
  data_begin_ = kLengthBytes + length;
  std::size_t at = 0;
  for (const Entry& entry : entries_) {
    if (entry.begin != at) {
      throw InputError("{}: tensor '{}' {}", name, entry.name,
                       entry.begin < at ? "overlaps another" : "leaves a gap before it");
    }
    at = entry.end;
  }
  if (at != bytes.size() - data_begin_) {
    throw InputError("{}: the tensors take {} bytes, but the file has {}", name, at, bytes.size() - data_begin_);
  }
}

void SafetensorsFile::read_into(const std::string& name, const at::Tensor& destination) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (found == entries_.end()) throw InputError("{}: has no tensor '{}'", path().string(), name);
  if (found->type != destination.scalar_type() || destination.sizes() != at::IntArrayRef(found->shape)) {
    throw InputError("{}: tensor '{}' is {} of shape {}, but {} of shape {} is needed", path().string(), name,
                     c10::toString(found->type), fmt::format("[{}]", fmt::join(found->shape, ", ")),
                     c10::toString(destination.scalar_type()),
                     fmt::format("[{}]", fmt::join(destination.sizes().vec(), ", ")));
  }
  if (found->begin == found->end) return;
  auto* data = const_cast<std::byte*>(file_.bytes().data() + data_begin_ + found->begin);
  destination.detach().copy_(at::from_blob(data, found->shape, destination.options().device(at::kCPU)));
}

void SafetensorsFile::read_into(const Entry& entry, std::size_t from, const at::Tensor& destination) const {
  const auto wanted = static_cast<std::size_t>(destination.numel());
  const std::size_t available = entry.shape.size() == 1 ? static_cast<std::size_t>(entry.shape[0]) : 0;
  if (entry.type != destination.scalar_type() || from > available || wanted > available - from) {
    throw InputError("{}: tensor '{}' is not a row of as many numbers as are needed", path().string(), entry.name);
  }
  if (wanted == 0) return;
  const std::size_t begin = data_begin_ + entry.begin + from * destination.element_size();
  auto* data = const_cast<std::byte*>(file_.bytes().data() + begin);
  destination.detach().copy_(at::from_blob(data, destination.sizes(), destination.options().device(at::kCPU)));
}

}  // namespace rookery
