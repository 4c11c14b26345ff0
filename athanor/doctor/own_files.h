// Which files doctor may change, and which folders a command may have root change: those of the user and of
// Athanor itself. Nothing else decides this.
#pragma once
#include <string>
#include <string_view>

#include "athanor/device/machine.h"

namespace athanor::doctor {

class Facts;

/// Paths on the examined machine; "" where there is none that may be touched.
struct OwnFiles {
  std::string home;         // the user's: it exists, the user owns it, and it is not a system folder
  std::string cache;        // Athanor's cache folder, there or to be made in a folder that is
  std::string database;     // athanor.db in the cache folder
  std::string environment;  // the file of variables that --fix writes
  std::string start;        // the start file of the user's shell
};

/// By HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME and ATHANOR_CACHE, none of which is trusted: each may be
/// relative,
/// "/", a folder of the system or a link to one.
OwnFiles own_files(const Facts& facts);

/// Where Athanor's cache folder is, as KernelCache looks for it; it may be anywhere. "" for nowhere.
std::string cache_folder(const Facts& facts);

/// An absolute path that says where it leads: without "..", empty parts and control characters.
bool is_plain_path(std::string_view path);

/// Whether a path belongs to the system: "/", "/home", and "/etc" and the like with everything in them. So
/// does a path that is not absolute and plain.
bool is_system_path(std::string_view path);

/// The same of where a path leads when its links are followed, as far as it is there.
bool leads_to_system(const Machine& machine, const std::string& path);

}  // namespace athanor::doctor
