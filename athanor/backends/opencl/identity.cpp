#include "athanor/backends/opencl/identity.h"

#include <CL/cl_ext.h>
#include <fmt/format.h>

#include <array>

#include "athanor/backends/gpu/uuid.h"

namespace athanor::opencl {
namespace {

template <class T>
bool tell(cl_device_id id, cl_device_info what, T& value) {
  return api().GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS;
}

// The device's PCI address: by the standard's extension, else by the vendor's.
std::string pci_of(cl_device_id id, const std::string& extensions) {
  cl_device_pci_bus_info_khr bus{};
  if (extensions.find("cl_khr_pci_bus_info") != std::string::npos &&
      tell(id, CL_DEVICE_PCI_BUS_INFO_KHR, bus))
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", bus.pci_domain, bus.pci_bus, bus.pci_device,
                       bus.pci_function);
  cl_device_topology_amd topology{};
  if (extensions.find("cl_amd_device_attribute_query") != std::string::npos &&
      tell(id, CL_DEVICE_TOPOLOGY_AMD, topology) && topology.raw.type == 1)
    return fmt::format("0000:{:02x}:{:02x}.{:x}", static_cast<unsigned char>(topology.pcie.bus),
                       static_cast<unsigned char>(topology.pcie.device),
                       static_cast<unsigned char>(topology.pcie.function));
  constexpr cl_device_info bus_nv = 0x4008, slot_nv = 0x4009, domain_nv = 0x400A;
  cl_uint number = 0, slot = 0, domain = 0;
  if (extensions.find("cl_nv_device_attribute_query") != std::string::npos && tell(id, bus_nv, number) &&
      tell(id, slot_nv, slot)) {
    tell(id, domain_nv, domain);
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, number, slot >> 3, slot & 7);
  }
  return {};
}

}  // namespace

Identity identity_of(cl_device_id id) {
  Identity identity;
  const std::string extensions = device_text(id, CL_DEVICE_EXTENSIONS),
                    name = device_text(id, CL_DEVICE_NAME);
  const auto has = [&](const char* extension) { return extensions.find(extension) != std::string::npos; };
  identity.pci = pci_of(id, extensions);
  if (has("cl_amd_device_attribute_query") && name.starts_with("gfx"))
    identity.arch = name.substr(0, name.find(':'));
  if (!has("cl_nv_device_attribute_query")) return identity;
  cl_uint major = 0, minor = 0;
  if (tell(id, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, major) &&
      tell(id, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, minor))
    identity.arch = fmt::format("sm_{}{}", major, minor);
  // Other drivers make up a UUID.
  constexpr cl_device_info device_uuid = 0x106A;
  std::array<unsigned char, 16> uuid{};
  if (has("cl_khr_device_uuid") && tell(id, device_uuid, uuid)) identity.uuid = gpu::nvidia_uuid(uuid);
  return identity;
}

}  // namespace athanor::opencl
