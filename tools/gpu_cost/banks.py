"""The cost of the addresses of a wave's lanes: passes of local memory, sectors of global memory."""


def neighbours_share(addresses, step):
    """Whether every lane n has the address of lane n xor step, or one of the two is not active."""
    return all(one is None or addresses[n ^ step] in (None, one) for n, one in enumerate(addresses))


def local_cycles(chip, addresses, bytes_of_lane, is_read=True):
    """Cycles that local memory takes for the addresses of a wave's lanes (None: not active), and the least that it could take.

    Each of the banks delivers a word of 4 bytes in a cycle; lanes that read the same word share it. An access of more than a
    word is served in parts: as many lanes at a time as fill the banks. (NVIDIA: CUDA guide, Shared Memory, 64-bit and 128-bit
    accesses; AMD: the ISA guides' chapters on LDS.) NVIDIA's chips join two such parts of a read in which lanes n and n xor 1,
    or n and n xor 2, have the same addresses; NVIDIA does not document this, but it was measured.
    """
    words = max(bytes_of_lane // 4, 1)
    together = max(chip.banks // words, 1)
    if chip.vendor == "nvidia" and is_read and words > 1 and (neighbours_share(addresses, 1) or neighbours_share(addresses, 2)):
        together *= 2
    cycles = least = 0
    for at in range(0, len(addresses), together):
        part = [a for a in addresses[at:at + together] if a is not None]
        if not part:
            continue
        wanted = [set() for _ in range(chip.banks)]
        for address in part:
            for word in range(address // 4, (address + bytes_of_lane - 1) // 4 + 1):
                wanted[word % chip.banks].add(word)
        distinct = sum(map(len, wanted))
        cycles += max(map(len, wanted))
        least += max(-(-distinct // chip.banks), 1)
    return cycles, least


def sectors(addresses, bytes_of_lane, sector):
    """The sectors of global memory that an access of a wave touches."""
    touched = set()
    for address in addresses:
        if address is not None:
            touched.update(range(address // sector, (address + bytes_of_lane - 1) // sector + 1))
    return touched


def global_bytes(addresses, bytes_of_lane, sector):
    return len(sectors(addresses, bytes_of_lane, sector)) * sector
