#!/usr/bin/env python3
"""Loads the safetensors file that safetensors_test.cpp wrote, with the reference package; exits 0 when all is there."""
import json
import struct
import sys
import zlib

import numpy as np
from safetensors import safe_open

RAMP = np.arange(12).reshape(2, 2, 3)
KINDS = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i8": "i1", "u8": "u1", "bool": "?"}

with safe_open(sys.argv[1], framework="np") as file:
    metadata = dict(file.metadata())
    checksums = json.loads(metadata.pop("athanor.crc32.tensors"))
    header_checksum = metadata.pop("athanor.crc32.header")
    assert metadata == {"step": "7", "plan": '{"a": [1, 2]}\n'}, metadata
    for name, kind in KINDS.items():
        tensor = file.get_tensor(name)
        assert tensor.dtype == np.dtype(kind), (name, tensor.dtype)
        np.testing.assert_array_equal(tensor, RAMP.astype(kind))
    # NumPy has none of these types, so only their headers are compared.
    others = {"bf16": "BF16", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2"}
    for name, dtype in others.items():
        part = file.get_slice(name)
        assert part.get_dtype() == dtype and part.get_shape() == [2, 2, 3], (name, part.get_dtype())
    assert file.get_tensor("scalar").shape == () and file.get_tensor("scalar") == 2.5
    assert file.get_tensor("empty").shape == (3, 0)
    assert np.isnan(file.get_tensor("nan")).all()
    np.testing.assert_array_equal(file.get_tensor('layer."1"/weight \u00e9'), [1, 2, 3])
    assert len(list(file.keys())) == len(KINDS) + len(others) + 4

# The checksums of the file's bytes, as described in safetensors.h.
with open(sys.argv[1], "rb") as file:
    content = file.read()
end = 8 + struct.unpack("<Q", content[:8])[0]
header = json.loads(content[8:end])
del header["__metadata__"]
assert checksums.keys() == header.keys()
for name, tensor in header.items():
    begin, stop = tensor["data_offsets"]
    assert checksums[name] == f"{zlib.crc32(content[end + begin:end + stop]):08x}", name
blank = content[:end].replace(header_checksum.encode(), b"00000000")
assert header_checksum == f"{zlib.crc32(blank):08x}"
