// Whole machines as text: tests/machines/NAME.machine is unpacked into a folder for `--root`.
//
//     # a comment, before the first file
//     include ubuntu-24.04.machine            includes another machine's files; later lines change them
//     include amd-gpu.machine BUS=03 NODE=1   the same, with {{BUS}} and {{NODE}} replaced
//     == /proc/version                        starts a file: the lines up to the next such line
//     =x /sys/.../config                      a file of bytes as `lspci -xxxx` prints them: "100: 0d 00"
//     ++ /proc/modules                        the same, but appends to the file
//     == /sys/class/drm/card0 -> TARGET       a symbolic link
//     == /dev/dri/                            an empty folder
//     --- /dev/kfd                            removes a file, a link or a folder with its contents
//
// To look at a machine: tools/unpack-machine NAME DIR && athanor detect --root DIR
// This uses only the standard library, so that tools/unpack-machine needs only a compiler.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace athanor::testing {

/// The files of a fixture, with paths as keys and contents as values.
class MachineFixture {
 public:
  explicit MachineFixture(const std::filesystem::path& file) { read(file, {}, 0); }

  void unpack(const std::filesystem::path& root) const {
    std::filesystem::create_directories(root);
    for (const auto& [path, entry] : entries_) {
      const std::filesystem::path place = root / path.substr(1);
      if (entry.kind == Kind::folder) {
        std::filesystem::create_directories(place);
        continue;
      }
      std::filesystem::create_directories(place.parent_path());
      if (entry.kind == Kind::link)
        std::filesystem::create_symlink(entry.text, place);
      else
        std::ofstream(place, std::ios::binary) << entry.text;
    }
  }

 private:
  enum class Kind { file, folder, link, bytes };
  struct Entry {
    Kind kind = Kind::file;
    std::string text;
  };
  using Values = std::map<std::string, std::string>;

  void read(const std::filesystem::path& file, const Values& values, int depth) {
    if (depth > 8) throw std::runtime_error("fixtures include each other: " + file.string());
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot be read: " + file.string());
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    for (const auto& [name, value] : values)
      for (size_t at = 0; (at = text.find("{{" + name + "}}", at)) != std::string::npos;)
        text.replace(at, name.size() + 4, value);
    if (const size_t at = text.find("{{"); at != std::string::npos)
      throw std::runtime_error(file.string() + ": no value for " + text.substr(at, 20));
    Entry* current = nullptr;
    for (size_t start = 0, end = 0; start < text.size(); start = end) {
      end = std::min(text.find('\n', start), text.size() - 1) + 1;
      const std::string line = text.substr(start, end - start);
      const std::string words = stripped(line);
      if (line.starts_with("include ") && line.find(".machine") != std::string::npos) {
        include(file, words_of(words.substr(8)), depth);
        current = nullptr;
      } else if (line.starts_with("== /")) {
        current = begin(words.substr(3));
      } else if (line.starts_with("=x /")) {
        current = begin(words.substr(3));
        current->kind = Kind::bytes;
      } else if (line.starts_with("++ /")) {
        current = &entries_[words.substr(3)];
      } else if (line.starts_with("--- /")) {
        remove(words.substr(4));
        current = nullptr;
      } else if (current != nullptr && current->kind == Kind::file) {
        current->text += line;
      } else if (current != nullptr && current->kind == Kind::bytes) {
        add_bytes(current->text, line);
      } else if (!words.empty() && !words.starts_with('#')) {
        throw std::runtime_error(file.string() + ": a line that belongs to no file: " + line);
      }
    }
  }

  static std::string stripped(const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
  }

  static std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != std::string::npos;) {
      const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
      words.push_back(text.substr(at, end - at));
      at = end;
    }
    return words;
  }

  void include(const std::filesystem::path& file, const std::vector<std::string>& words, int depth) {
    Values values;
    for (size_t i = 1; i < words.size(); ++i)
      if (const size_t equals = words[i].find('='); equals != std::string::npos)
        values[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    read(file.parent_path() / words.at(0), values, depth + 1);  // an absolute path is not changed
  }

  // Adds "100: 0d 00": hexadecimal bytes at an offset. Bytes before them are zeros.
  static void add_bytes(std::string& text, const std::string& line) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) return;
    text.resize(std::stoul(line.substr(0, colon), nullptr, 16), '\0');
    for (const std::string& byte : words_of(line.substr(colon + 1)))
      text += static_cast<char>(std::stoul(byte, nullptr, 16));
  }

  Entry* begin(const std::string& words) {
    std::string path = words;
    Entry entry;
    if (const size_t arrow = words.find(" -> "); arrow != std::string::npos) {
      path = words.substr(0, arrow);
      entry = {Kind::link, words.substr(arrow + 4)};
    } else if (path.ends_with('/')) {
      path.pop_back();
      entry.kind = Kind::folder;
    }
    return &(entries_[path] = entry);
  }

  void remove(const std::string& path) {
    std::erase_if(entries_, [&](const auto& entry) {
      return entry.first == path || entry.first.starts_with(path + "/");
    });
  }

  std::map<std::string, Entry> entries_;
};

}  // namespace athanor::testing
