"""The IDX file format of MNIST: bytes to array and back, plain or gzip.

An IDX file is a big-endian header and then the elements in C order. The header is four bytes of magic (0, 0,
the type of the elements, the number of dimensions) and four bytes for the length of each dimension. MNIST
uses one type, unsigned byte (0x08). Published at http://yann.lecun.com/exdb/mnist/ (LeCun, Cortes, Burges).
"""

from __future__ import annotations

import gzip
import math
import os
import pathlib
import struct
import zlib

import numpy as np
import numpy.typing as npt

from mnistpro_jax.data.dataset import DataError

_UNSIGNED_BYTE = 0x08
_GZIP_MAGIC = b"\x1f\x8b"
_CONTENTS = {1: "a label file (one dimension)", 3: "a picture file (three dimensions)"}
_REPLACE = "The file is damaged or of another kind: fetch it again."


def decode(payload: bytes, ndim: int, name: str) -> npt.NDArray[np.uint8]:
    """Array in the unpacked IDX file ``payload``.

    Args:
        payload: the whole file, not compressed.
        ndim: number of dimensions to expect: 3 for pictures, 1 for labels.
        name: name of the file, for error messages.

    Returns:
        uint8 array of ``ndim`` dimensions; a read-only view of ``payload``.

    Raises:
        DataError: wrong magic, another number of dimensions, too few or too many bytes.
    """
    header_size = 4 + 4 * ndim
    if len(payload) < header_size:
        raise DataError(
            f"{name} is truncated: it has {len(payload):,} bytes and the header of {_describe(ndim)} alone "
            f"has {header_size}. {_REPLACE}"
        )
    zeros, kind, found_ndim = struct.unpack_from(">HBB", payload)
    if (zeros, kind, found_ndim) != (0, _UNSIGNED_BYTE, ndim):
        hint = ""
        if (zeros, kind) == (0, _UNSIGNED_BYTE) and found_ndim in _CONTENTS:
            hint = f" This is {_describe(found_ndim)}: were two files mixed up?"
        raise DataError(
            f"{name} has the magic 0x{payload[:4].hex()}; expected 0x0000{_UNSIGNED_BYTE:02x}{ndim:02x}, an "
            f"IDX file of unsigned bytes, {_describe(ndim)}.{hint or ' ' + _REPLACE}"
        )
    shape = struct.unpack_from(f">{ndim}I", payload, 4)
    expected_size = header_size + math.prod(shape)
    if len(payload) != expected_size:
        wrong = "is truncated" if len(payload) < expected_size else "has trailing bytes"
        raise DataError(
            f"{name} {wrong}: its header announces shape {shape}, which makes {expected_size:,} bytes; found "
            f"{len(payload):,}. {_REPLACE}"
        )
    return np.frombuffer(payload, np.uint8, offset=header_size).reshape(shape)


def encode(array: npt.NDArray[np.uint8]) -> bytes:
    """IDX file (not compressed) of a uint8 array with 1 to 255 dimensions; the inverse of ``decode``.

    Raises:
        DataError: ``array`` is not uint8, or has no dimension.
    """
    if array.dtype != np.uint8 or array.ndim < 1:
        raise DataError(
            f"Cannot write {array.dtype} with shape {array.shape} as IDX; expected a uint8 array with at "
            "least one dimension. Convert it first."
        )
    header = struct.pack(f">HBB{array.ndim}I", 0, _UNSIGNED_BYTE, array.ndim, *array.shape)
    return header + array.tobytes(order="C")


def read_payload(path: str | os.PathLike[str]) -> bytes:
    """Content of the file at ``path``, unpacked where it is gzip.

    Whether it is gzip is seen from its first bytes, not from its name: browsers unpack downloads on the way
    and keep the name with ".gz". (No IDX file begins like gzip.)

    Raises:
        DataError: the file cannot be read, or its gzip stream is corrupt.
    """
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror or error}. Check that the file exists and may be read."
        ) from error
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} is a corrupt gzip file ({error}); expected a whole one. {_REPLACE}"
        ) from error


def read(path: str | os.PathLike[str], ndim: int) -> npt.NDArray[np.uint8]:
    """Array in the IDX file at ``path``, plain or gzip; see ``decode`` for shape and errors."""
    return decode(read_payload(path), ndim, str(path))


def write(path: str | os.PathLike[str], array: npt.NDArray[np.uint8]) -> None:
    """Write a uint8 array as an IDX file, as gzip where the name ends in ".gz"; the same bytes every time.

    Raises:
        DataError: see ``encode``.
        OSError: the file cannot be written.
    """
    payload = encode(array)
    path = pathlib.Path(path)
    if path.suffix == ".gz":
        payload = gzip.compress(payload, mtime=0)
    path.write_bytes(payload)


def _describe(ndim: int) -> str:
    return _CONTENTS.get(ndim, f"an IDX file of {ndim} dimensions")
