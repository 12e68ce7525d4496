#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel of an installed tree: the tool in bin, the plugin in lib/anynet, manual page and documents in share. It holds no
Python code and depends on nothing.

Usage: wheel.py TREE OUT_DIR VERSION ARCH GLIBC TIME
"""

import base64
import hashlib
import os
import sys
import time
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: anynet
Version: {version}
Summary: A network plugin for NCCL over TCP, InfiniBand and RoCE, and its tool
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/plain

`anynet run COMMAND` runs a command whose NCCL uses the plugin; `eval "$(anynet env)"` does the same for a shell.
`anynet perf` runs a checked all-reduce, `anynet check` looks for what is wrong on the host.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: anynet
Root-Is-Purelib: false
Tag: {tag}
"""


def place(path):
    """Where a file of the tree lies in the prefix of a Python environment; None: it is left out."""
    top, rest = path.split("/", 1)
    if top == "bin":
        return "scripts/" + rest
    if top.startswith("lib"):
        return "data/lib/anynet/" + os.path.basename(rest)
    if top == "share" and not rest.startswith(("pkgconfig/", "cmake/")):
        return "data/share/" + rest
    return None


def contents(tree, version, tag):
    """(name, bytes, mode) of all files but RECORD, sorted."""
    files = []
    for folder, _, names in os.walk(tree):
        for name in names:
            full = os.path.join(folder, name)
            to = place(os.path.relpath(full, tree))
            if to:
                with open(full, "rb") as file:  # a link becomes a file: a zip has none
                    mode = 0o755 if os.access(full, os.X_OK) else 0o644
                    files.append((f"anynet-{version}.data/{to}", file.read(), mode))
    info = f"anynet-{version}.dist-info/"
    files.append((info + "METADATA", METADATA.format(version=version).encode(), 0o644))
    files.append((info + "WHEEL", WHEEL.format(tag=tag).encode(), 0o644))
    return sorted(files)


def record(files, version):
    name = f"anynet-{version}.dist-info/RECORD"
    lines = []
    for path, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    lines.append(f"{name},,\n")
    return name, "".join(lines).encode(), 0o644


def main():
    tree, out, version, arch, glibc, seconds = sys.argv[1:]
    platform = "manylinux_" + glibc.replace(".", "_") if glibc else "linux"
    tag = f"py3-none-{platform}_{arch}"
    files = contents(tree, version, tag)
    files.append(record(files, version))
    path = os.path.join(out, f"anynet-{version}-{tag}.whl")
    with zipfile.ZipFile(path + ".part", "w") as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, time.gmtime(int(seconds))[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data, compresslevel=9)
    os.rename(path + ".part", path)
    print(path)


main()
