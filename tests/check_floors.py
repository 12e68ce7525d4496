#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls and includes of plugin/ and transports/ run downwards only (docs/architecture.md, The floors).

Usage: check_floors.py SOURCE_DIR NM OBJECT...

A folder may use the names and the headers of the folders below it and of its own. A use is an include, or a
name that one folder's objects define and another's need.
"""

import os
import re
import subprocess
import sys

# From the ground up. Folders in one line do not use each other.
FLOORS = (
    ("base",),
    ("wire",),
    ("device",),
    ("memory",),
    ("message",),
    ("path/tcp",),
    ("path/ib",),
    ("session",),
    ("service",),
    ("plugin",),
)

FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}


def folder_of(path):
    """The folder of a source or an object, as FLOORS names it; None: it is not the product's."""
    path = re.sub(r"/CMakeFiles/[^/]+\.dir", "", path)
    found = re.search(r"/(?:transports/(.+)|(plugin))/[^/]+$", path)
    return found and (found.group(1) or found.group(2))


def file_of(path):
    return re.sub(r"\.c\.o$|\.[ch]$", "", os.path.basename(path))


def is_upward(user, used):
    return user != used and FLOOR_OF[used] >= FLOOR_OF[user]


def includes(source_dir):
    """(user, used) of every upward include, as FOLDER/FILE."""
    for top in ("transports", "plugin"):
        for folder, _, files in os.walk(os.path.join(source_dir, top)):
            for name in (name for name in files if name.endswith((".c", ".h"))):
                path = os.path.join(folder, name)
                user = folder_of(path)
                with open(path, encoding="utf-8") as file:
                    for header in re.findall(r'^\s*#\s*include "(.+)/[^/]+\.h"', file.read(), re.M):
                        header = header.removeprefix("transports/")
                        if header in FLOOR_OF and is_upward(user, header):
                            yield f"{user}/{name}", header


def symbols(nm, objects):
    """Who defines each name, and who needs which."""
    defined, needed = {}, []
    for path in objects:
        listing = subprocess.run([nm, "--format=posix", path], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            name, kind = line.split()[:2]
            if kind == "U":
                needed.append((path, name))
            elif kind.isupper():
                defined[name] = path
    return defined, needed


def calls(nm, objects):
    defined, needed = symbols(nm, objects)
    for path, name in needed:
        if name in defined and is_upward(folder_of(path), folder_of(defined[name])):
            yield f"{folder_of(path)}/{file_of(path)}", name


def main(source_dir, nm, *objects):
    objects = [path for argument in objects for path in argument.split(";")]
    unplaced = {folder_of(path) for path in objects} - set(FLOOR_OF)
    if unplaced:
        sys.exit(f"not on any floor: {', '.join(map(str, sorted(unplaced)))}")
    found = {f"include {user} {used}" for user, used in includes(source_dir)}
    found |= {f"call {user} {used}" for user, used in calls(nm, objects)}
    for use in sorted(found):
        print(f"upward: {use}")
    print(f"{len(found)} upward uses in {len(objects)} objects")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
