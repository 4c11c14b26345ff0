#!/usr/bin/env python3
"""Writes the seed corpus tests/fuzz/corpus/, which the tests of the formats also take as reference files.

The files come from others' implementations: NumPy, the safetensors package, Pillow, Python's gzip, zlib, tarfile and zipfile, and libjpeg-turbo's
cjpeg (the program is named by $CJPEG). Run by hand when a file is to be added; the result is committed.
"""
import gzip
import io
import os
import struct
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save

CORPUS = Path(__file__).parent / "corpus"


def put(name: str, data: bytes) -> None:
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def idx(code: int, array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def make_idx() -> None:
    ramp = np.arange(-3, 9).reshape(2, 2, 3)
    put("idx/u8", idx(0x08, (ramp + 3).astype("u1")))
    put("idx/i8", idx(0x09, ramp.astype("i1")))
    put("idx/i16", idx(0x0B, (ramp * 1000).astype("i2")))
    put("idx/i32", idx(0x0C, (ramp * 100000).astype("i4")))
    put("idx/f32", idx(0x0D, (ramp / 4).astype("f4")))
    put("idx/f64", idx(0x0E, (ramp / 3).astype("f8")))
    put("idx/u8.gz", gzip.compress(idx(0x08, (ramp + 3).astype("u1")), mtime=0))
    put("idx/zeros.gz", gzip.compress(idx(0x08, np.zeros((64, 64), "u1")), mtime=0))


def make_npy() -> None:
    ramp = np.arange(-3, 9).reshape(2, 2, 3)

    def npy(name: str, array: np.ndarray, version=(1, 0)) -> None:
        path = CORPUS / "npy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.lib.format.write_array(file, array, version=version)

    for kind in ("i1", "i2", "i4", "i8", "f2", "f4", "f8"):
        npy(kind, (ramp / 2).astype("<" + kind))
    for kind in ("u1", "u2", "u4", "u8"):
        npy(kind, (ramp + 3).astype("<" + kind))
    npy("b1", ramp % 2 == 0)
    npy("big_endian", (ramp / 2).astype(">f4"))
    npy("fortran", np.asfortranarray((ramp / 2).astype("<f4")))
    npy("scalar", np.array(2.5))
    npy("empty", np.zeros((0, 3), "<f4"))
    npy("version2", (ramp / 2).astype("<f4"), (2, 0))
    npy("version3", (ramp / 2).astype("<f4"), (3, 0))


def make_safetensors() -> None:
    ramp = np.arange(-3, 9).reshape(2, 2, 3)
    tensors = {
        "f64": (ramp / 2).astype("f8"),
        "f32": (ramp / 2).astype("f4"),
        "f16": (ramp / 2).astype("f2"),
        "i64": ramp.astype("i8"),
        "i32": ramp.astype("i4"),
        "i8": ramp.astype("i1"),
        "u8": (ramp + 3).astype("u1"),
        "bool": ramp % 2 == 0,
        "scalar": np.array(2.5, "f4"),
        "empty": np.zeros((0, 3), "f4"),
    }
    put("safetensors/all", save(tensors, metadata={"step": "12", "quote": 'a "b" \u00e9'}))
    put("safetensors/one", save({"weight": np.ones(2, "f4")}))
    put("safetensors/none", save({}))
    header = b'{"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    put("safetensors/bf16", struct.pack("<Q", len(header)) + header + struct.pack("<3H", 0x3F80, 0xC000, 0x7F80))


def png(color: int, depth: int, rows: list, extra: bytes = b"", interlace: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    width = len(rows[0]) * 8 // depth // channels
    header = struct.pack(">IIBBBBB", width, len(rows), depth, color, 0, 0, interlace)
    body = b"".join(b"\0" + bytes(row) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def make_images() -> None:
    grey = [[0, 50, 100, 150], [200, 250, 30, 60], [90, 120, 7, 255]]
    put("image/grey.png", png(0, 8, grey))
    put("image/grey1.png", png(0, 1, [[0b10100101], [0b00001111]]))
    put("image/grey16.png", png(0, 16, [[255, 255, 0, 0, 128, 128, 1, 1]]))
    put("image/rgb.png", png(2, 8, [[255, 0, 0, 0, 255, 0], [0, 0, 255, 10, 20, 30]]))
    put("image/rgba.png", png(6, 8, [[255, 0, 0, 0, 10, 20, 30, 128]]))
    palette = struct.pack(">I", 6) + b"PLTE" + bytes([1, 2, 3, 200, 100, 50])
    palette += struct.pack(">I", zlib.crc32(b"PLTE" + bytes([1, 2, 3, 200, 100, 50])))
    put("image/palette.png", png(3, 8, [[0, 1], [1, 0]], palette))
    # With one pixel, all data is in the first of Adam7's seven passes.
    put("image/interlaced.png", png(0, 8, [[77]], interlace=1))

    cjpeg = os.environ.get("CJPEG", "cjpeg")
    ramp = bytes(v for y in range(16) for x in range(16) for v in (x * 16, y * 16, 128))
    ppm = b"P6 16 16 255\n" + ramp
    for name, options in {"rgb": [], "grey": ["-grayscale"], "progressive": ["-progressive"]}.items():
        put(f"image/{name}.jpg", subprocess.run([cjpeg, "-quality", "95", *options], input=ppm, capture_output=True, check=True).stdout)


def make_npz() -> None:
    arrays = {"images": np.arange(24, dtype="u1").reshape(2, 3, 4), "labels": np.array([1, 0], "i8")}
    for name, write in {"stored": np.savez, "deflated": np.savez_compressed}.items():
        file = io.BytesIO()
        write(file, **arrays)
        put(f"npz/{name}", file.getvalue())
    file = io.BytesIO()
    np.savez(file)
    put("npz/empty", file.getvalue())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("one.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.ones(3, "f4"))
    put("npz/zip64", file.getvalue())


def make_tar() -> None:
    for name, form in {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items():
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form) as archive:
            for member, content in {"a/1.cls": b"7", "a/1.jpg": b"x" * 600, ("long/" * 30) + "2.cls": b"dog"}.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            folder = tarfile.TarInfo("folder")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        put(f"tar/{name}", file.getvalue()[: 512 * 14])


def make_csv() -> None:
    put("csv/plain", b"a,b,label\n1,x,yes\n2.5,,no\n")
    put("csv/quoted", b'a;"b ""c""";label\r\n"1;2";"two\nlines";"x"\r\n\r\n3;4;5')
    put("csv/tabs", b"\xef\xbb\xbfname\tlabel\nna\xc3\xafve\t1\n")


def make_cifar() -> None:
    put("cifar/ten", bytes([3]) + bytes(i % 251 for i in range(3072)))
    put("cifar/hundred", bytes([5, 99]) + bytes(i % 251 for i in range(3072)))


def make_webp() -> None:
    pixels = [[(x * 16, y * 16, 128) for x in range(12)] for y in range(10)]
    picture = Image.fromarray(np.array(pixels, "u1"))
    for name, options in {"lossless": {"lossless": True}, "lossy": {"quality": 80}}.items():
        file = io.BytesIO()
        picture.save(file, "WEBP", **options)
        put(f"image/{name}.webp", file.getvalue())


make_idx()
make_npy()
make_npz()
make_tar()
make_csv()
make_cifar()
make_webp()
make_safetensors()
make_images()
