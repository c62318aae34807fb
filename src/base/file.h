#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace rookery {

// A file mapped into memory, read only. Throws InputError naming the path if it cannot be opened.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// The whole file as a string. Throws InputError if it is missing, or larger than `limit`.
std::string read_file(const std::filesystem::path& path, Bytes limit = Bytes{1} << 30);

// A file that is being written. Every failure (a full disk, a lost directory) throws InputError naming the path, also
// one that the system reports only at close. Nothing is durable before finish().
class FileWriter {
 public:
  enum class Mode { kReplace, kAppend };  // what becomes of a file that is there already

  // Others may read what their owner writes, unless `permissions` say otherwise.
  explicit FileWriter(const std::filesystem::path& path, Mode mode = Mode::kReplace, unsigned permissions = 0644);
  ~FileWriter();  // closes; the file stays as far as it was written
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Hands all bytes to the system in one call, unless the system takes fewer at a time.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish();  // writes through to the disk, and closes

 private:
  std::filesystem::path path_;
  int fd_;
};

// A file that has lost its name, so that it goes when nobody needs it any more, however the process ends.
class NamelessFile {
 public:
  // Takes the file's name away. Throws InputError naming the path if it cannot be opened.
  explicit NamelessFile(const std::filesystem::path& path);
  ~NamelessFile();
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  std::filesystem::path path() const;  // by which this process can open it

 private:
  int fd_;
};

// Replaces `path` as a whole: readers see the old content or the new, whatever happens in between.
void replace_file(const std::filesystem::path& path, std::string_view content);

// The same, with what nobody but its owner may read.
void replace_private_file(const std::filesystem::path& path, std::string_view content);

// Something that processes of one computer do one after another: whoever holds the same file keeps the others waiting,
// for as long as they have patience. The file stays, empty.
class FileLock {
 public:
  FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_held() const { return held_; }  // not if patience has run out, or there can be no such file

 private:
  int fd_;
  bool held_ = false;
};

// Makes a file's content, or what was created or renamed in a directory, survive a power cut.
void make_durable(const std::filesystem::path& file_or_directory);

// SHA-256, in hexadecimal; of a file piece by piece, so that a large one needs no memory.
std::string digest(std::span<const std::byte> bytes);
std::string digest_of_file(const std::filesystem::path& path);

}  // namespace rookery
