#include "athanor/formats/npz.h"

#include <fmt/format.h>

#include "athanor/formats/bytes.h"
#include "athanor/formats/npy.h"
#include "athanor/formats/zip.h"

namespace athanor {

std::map<std::string, HostArray> read_npz(const std::filesystem::path& path) {
  return parse_npz(read_file(path), path.string());
}

std::map<std::string, HostArray> parse_npz(Bytes data, const std::string& name) {
  constexpr std::string_view ending = ".npy";
  std::map<std::string, HostArray> arrays;
  for (const ZipMember& member : zip_members(data, name)) {
    if (!member.name.ends_with(ending))
      throw format_error(fmt::format("the member '{}' is no .npy file", member.name), name,
                         byte_place(member.offset), "Write it with numpy.savez()");
    const std::string key = member.name.substr(0, member.name.size() - ending.size());
    HostArray array =
        parse_npy(read_zip_member(data, member, name), fmt::format("{}, {}", name, member.name));
    if (!arrays.emplace(key, std::move(array)).second)
      throw format_error(fmt::format("the array '{}' is there twice", key), name, byte_place(member.offset));
  }
  return arrays;
}

}  // namespace athanor
