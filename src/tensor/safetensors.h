#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file.h"

namespace rookery {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Writes a safetensors file: the length of a JSON header, the header, the tensors' bytes one after another. Types:
// float32, float64, int64, int32, uint8. Throws InputError naming the path when the disk is full.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// A safetensors file, mapped. The constructor checks everything the header claims (its length, names, types, shapes,
// and that the tensors lie inside the file, end to end, without overlap) and throws InputError naming the path and the
// tensor otherwise; after that no access can fail but for a name that is not there.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType type;
    std::vector<std::int64_t> shape;
    std::size_t begin, end;  // within the data
  };

  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const Entry> entries() const { return entries_; }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Copies tensor `name` into `destination`. Throws InputError if it is missing or has another type or shape.
  void read_into(const std::string& name, const at::Tensor& destination) const;

  // The same for values [from, from + n) of a tensor with one dimension; `destination` has n of the same type.
  // Requires: the entry is of this file.
  void read_into(const Entry& entry, std::size_t from, const at::Tensor& destination) const;

 private:
  MappedFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::size_t data_begin_ = 0;
};

}  // namespace rookery
