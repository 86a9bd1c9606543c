"""Build ``mnist.zip`` from the four published IDX files of MNIST (for maintainers; users never need it).

    python -m mnistpro_jax.data.build_bundle --idx FOLDER [--out FILE]

FOLDER holds the files plain or gzip. Each is unpacked and compared with its pinned SHA-256 before anything is
written. The same files give the same bundle, byte for byte, wherever the same zlib is in use (other releases
of zlib may compress to other bytes; what is unpacked from them is the same).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import sys
import zipfile
from collections.abc import Sequence

from mnistpro_jax.data import bundle, idx, idx_folder
from mnistpro_jax.data.dataset import SPLITS, DataError

# Level 9 takes about twenty times as long for 2 % less.
_COMPRESSION_LEVEL = 6


def build(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Write the bundle ``out`` from the IDX files in ``folder``.

    Raises:
        DataError: a file is missing, unreadable or not the published one; ``out`` is then left as it was.
        OSError: ``out`` cannot be written.
    """
    members = []
    for split in SPLITS:
        for content, member in (("images", bundle.IMAGES[split]), ("labels", bundle.LABELS[split])):
            path = idx_folder.find_file(folder, split, content)
            payload = idx.read_payload(path)
            found = hashlib.sha256(payload).hexdigest()
            if found != member.sha256:
                raise DataError(
                    f"{path} has the SHA-256 {found} (unpacked); the published {member.name} has "
                    f"{member.sha256}. Fetch the original file."
                )
            members.append((member.name, payload))

    out = pathlib.Path(out)
    # Written beside and moved into place, so that an interruption never leaves half a bundle.
    unfinished = out.with_name(out.name + ".part")
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name, payload in members:
                archive.writestr(_entry(name), payload, zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _entry(name: str) -> zipfile.ZipInfo:
    """Zip entry that tells nothing of when, where and by whom the bundle was built."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3  # Unix, whatever system builds
    entry.external_attr = 0o100644 << 16
    return entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mnistpro_jax.data.build_bundle", description="Build the MNIST bundle of mnistpro_jax."
    )
    parser.add_argument(
        "--idx", required=True, metavar="FOLDER", help="folder with the four IDX files of MNIST"
    )
    parser.add_argument(
        "--out",
        default=str(bundle.shipped_bundle()),
        metavar="FILE",
        help="file to write (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        build(options.idx, options.out)
    except (DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.out}: {pathlib.Path(options.out).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
