// The files that doctor may change, and the folders that a command may have root change: those of the user
// and of Athanor itself. Nothing else decides this.
#pragma once
#include <string>
#include <string_view>

#include "athanor/device/machine.h"

namespace athanor::doctor {

class Facts;

/// Paths on the examined machine; "" if there is none that may be touched.
struct OwnFiles {
  std::string home;         // the user's: it exists, the user owns it, and it is not a system folder
  std::string cache;        // Athanor's cache folder, existing or in a folder that exists
  std::string database;     // athanor.db in the cache folder
  std::string environment;  // the file of variables that --fix writes
  std::string start;        // the start file of the user's shell
};

/// From HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME and ATHANOR_CACHE, none of which is trusted: each may be
/// relative, "/", a folder of the system or a link to one.
OwnFiles own_files(const Facts& facts);

/// Athanor's cache folder, by the rules of KernelCache; it may be anywhere. "" for none.
std::string cache_folder(const Facts& facts);

/// Whether a path is absolute and unambiguous: without "..", empty parts and control characters.
bool is_plain_path(std::string_view path);

/// Whether a path belongs to the system: "/", "/home", and "/etc" and the like with everything in them. So
/// does a path that is not absolute and plain.
bool is_system_path(std::string_view path);

/// The same for the place that a path leads to when its links are followed, as far as they exist.
bool leads_to_system(const Machine& machine, const std::string& path);

}  // namespace athanor::doctor
