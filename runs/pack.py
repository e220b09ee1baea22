"""A folder as a few files small enough to carry to another machine, and back; what arrives is checked by hash.

    python runs/pack.py pack data/de-en --to carry              carry/de-en.tar.00, .01, … of at most 58 MiB, and carry/de-en.sha256
    python runs/pack.py unpack carry/de-en.sha256 --to data     data/de-en, or one sentence about the part that is missing or damaged

`sha256sum --check` reads the list of hashes, too.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bethink.errors import BethinkError, DataError, UsageError
from bethink.files import new_folder, write_atomically
from bethink.folder import sha256

MEBIBYTE = 1 << 20


def pack(folder: Path, to: Path, size: int = 58 * MEBIBYTE, *, squeeze: bool = True) -> Path:
    """The parts of a folder and, written last, the list of their hashes, which is returned."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    to.mkdir(parents=True, exist_ok=True)
    name = folder.resolve().name
    for old in to.glob(f"{name}.tar.*"):
        old.unlink()
    with tempfile.TemporaryFile(dir=to) as whole:
        with tarfile.open(fileobj=whole, mode="w:xz" if squeeze else "w") as archive:
            archive.add(folder, arcname=".")
        whole.seek(0)
        parts: list[Path] = []
        while data := whole.read(size):
            parts.append(to / f"{name}.tar.{len(parts):02d}")
            write_atomically(parts[-1], data)
    hashes = "".join(f"{sha256(part)}  {part.name}\n" for part in parts)
    write_atomically(to / f"{name}.sha256", hashes.encode())
    return to / f"{name}.sha256"


def unpack(hashes: Path, to: Path) -> Path:
    """The folder that was packed, whole or not at all."""
    folder = to / hashes.name.removesuffix(".sha256")
    if folder.exists():
        raise UsageError(f"{folder} already exists; remove it or unpack to another folder")
    if not hashes.is_file():
        raise DataError(f"{hashes} is missing; it is the list of hashes that was packed with the parts")
    with new_folder(folder) as new, tempfile.TemporaryFile(dir=to) as whole:
        for line in hashes.read_text(encoding="utf-8").splitlines():
            digest, _, name = line.partition("  ")
            whole.write(_checked(hashes.parent / Path(name).name, digest).read_bytes())
        whole.seek(0)
        with tarfile.open(fileobj=whole) as archive:
            archive.extractall(new, filter="data")
    return folder


def _checked(part: Path, digest: str) -> Path:
    if not part.is_file():
        raise DataError(f"{part} is missing; copy all parts and their list of hashes into one folder")
    if sha256(part) != digest:
        raise DataError(f"{part} is not what was packed; copy it again")
    return part


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("verb", choices=("pack", "unpack"))
    options.add_argument("what", type=Path, help="the folder to pack, or the list of hashes to unpack")
    options.add_argument("--to", type=Path, required=True, metavar="DIR")
    options.add_argument("--size", type=float, default=58, metavar="MIB", help="of the largest part (default: 58)")
    args = options.parse_args(argv)
    try:
        done = (
            unpack(args.what, args.to) if args.verb == "unpack" else pack(args.what, args.to, int(args.size * MEBIBYTE))
        )
    except BethinkError as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        return 1
    print(done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
