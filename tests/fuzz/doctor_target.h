// The entry point of doctor's fuzzer: readers of a machine's files, chosen by the first byte. They accept any
// text. Those of data files may throw Error(format), and nothing else. tests/doctor/fuzz_replay_test.cpp runs
// them on the corpus.
#pragma once
#include <span>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "athanor/device/kfd.h"
#include "athanor/device/nvidia_version.h"
#include "athanor/device/pci.h"
#include "athanor/doctor/check.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts/certificates.h"
#include "athanor/doctor/facts/network.h"
#include "athanor/doctor/facts/packages.h"
#include "athanor/doctor/facts/python.h"
#include "athanor/doctor/facts/shell.h"
#include "athanor/doctor/facts/system.h"
#include "athanor/doctor/redact.h"
#include "athanor/doctor/report.h"

namespace athanor::fuzz {

inline const doctor::Redaction& redaction() {
  static const Machine machine;
  static const doctor::Redaction redacted(machine);
  return redacted;
}

inline void read_as(uint8_t which, const std::string& text) {
  using namespace athanor::doctor;
  switch (which % 12) {
    case 0:
      parse_metadata(text);
      break;
    case 1:
      parse_dpkg_status(text);
      break;
    case 2:
      parse_shell(text, "f");
      break;
    case 3:
      listening_ports(text);
      break;
    case 4:
      certificate_ends(text);
      break;
    case 5:
      certificate_ends("-----BEGIN CERTIFICATE-----" + text + "-----END CERTIFICATE-----");
      break;
    case 6:
      nvidia_module_version(text);
      cuda_of_flavour(text);
      normalized(text);
      parse_acs(text);
      parse_rpm_header(text);
      parse_pacman_folder(text);
      for (const auto& [name, value] : parse_kfd_properties(text)) gfx_name(value);
      break;
    case 7:
      parse_assignments(text);
      break;
    case 8:
      Version::parse(text);
      break;
    case 9:
      redaction()(text);
      break;
    case 10:
      wrapped(fill(text, {{"a", "{b}"}, {"b", text}}), 40, 2);
      shell_word(text);
      break;
    default:
      try {
        if (which < 128)
          Compatibility::parse(text);
        else
          parse_checks({{"f", text}});
      } catch (const Error& error) {
        if (error.code() != ErrorCode::format) throw;
      }
  }
}

inline void doctor(std::string_view data) {
  if (data.empty() || data.size() > (1 << 16)) return;
  read_as(static_cast<uint8_t>(data[0]), std::string(data.substr(1)));
}

}  // namespace athanor::fuzz
