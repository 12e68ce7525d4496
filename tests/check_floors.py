#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls and includes of plugin/ and transports/, and those of tools/, run downwards only, and no files need each other in a circle
(docs/architecture.md, Who may include whom).

Usage: check_floors.py SOURCE_DIR NM OBJECT...

A folder may use the names and the headers of the folders below it and of its own. A use is an include, or a
name that one folder's objects define and another's need.
"""

import os
import re
import subprocess
import sys

# From the ground up. Folders in one line do not use each other. The tools are a house of their own: what they
# use of the product is check_includes.sh's.
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
    ("tools/shared",),
    ("tools/shared/judge", "tools/shared/net", "tools/shared/stats"),
    ("tools/check", "tools/config", "tools/devices", "tools/dump", "tools/env", "tools/explain", "tools/export",
     "tools/pair", "tools/top"),
    ("tools/hosts",),
    ("tools/cluster", "tools/perf"),
    ("tools",),
)

FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}


def folder_of(path):
    """The folder of a source or an object, as FLOORS names it; None: it is not the product's."""
    path = re.sub(r"/CMakeFiles/[^/]+\.dir", "", os.path.normpath(path))
    found = re.search(r"/(?:transports/(.+)|(plugin|tools(?:/.+)?))/[^/]+$", path)
    return found and (found.group(1) or found.group(2))


def file_of(path):
    return re.sub(r"\.c\.o$|\.[ch]$", "", os.path.basename(path))


def is_tool(folder):
    return folder.split("/")[0] == "tools"


def is_upward(user, used):
    return user != used and FLOOR_OF[used] >= FLOOR_OF[user] and is_tool(user) == is_tool(used)


def includes(source_dir):
    """(user, used) of every upward include, as FOLDER/FILE."""
    for top in ("transports", "plugin", "tools"):
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
    listing = subprocess.run([nm, "-A", "--format=posix", *objects], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        path, name, kind = line.replace(": ", " ", 1).split()[:3]
        if kind == "U":
            needed.append((path, name))
        elif kind.isupper():
            defined[name] = path
    return defined, needed


def name_of(path):
    return f"{folder_of(path)}/{file_of(path)}"


def uses(nm, objects):
    """Which files need which others, and one name of each for that."""
    defined, needed = symbols(nm, objects)
    found = {path: {} for path in objects}
    for path, name in needed:
        if defined.get(name, path) != path:
            found[path][defined[name]] = name
    return found


def calls(found):
    for path, others in found.items():
        for other, name in others.items():
            if is_upward(folder_of(path), folder_of(other)):
                yield f"{name_of(path)} {name}"


def circles(found):
    """Each file is taken away that needs none of those that are left: what stays needs itself, or leads to such."""
    left = {path: set(others) for path, others in found.items()}
    while True:
        done = {path for path, others in left.items() if not others & left.keys()}
        if not done:
            break
        left = {path: others for path, others in left.items() if path not in done}
    while left:
        used = set().union(*left.values())
        unused = {path for path in left if path not in used}
        if not unused:
            break
        left = {path: others for path, others in left.items() if path not in unused}
    for path, others in left.items():
        for other in others & left.keys():
            yield f"{name_of(path)} {name_of(other)} ({found[path][other]})"


def main(source_dir, nm, *objects):
    objects = [path for argument in objects for path in argument.split(";")]
    unplaced = {folder_of(path) for path in objects} - set(FLOOR_OF)
    if unplaced:
        sys.exit(f"not on any floor: {', '.join(map(str, sorted(unplaced)))}")
    upward = {f"include {user} {used}" for user, used in includes(source_dir)}
    found = uses(nm, objects)
    upward |= {f"call {call}" for call in calls(found)}
    in_circle = sorted(circles(found))
    for use in sorted(upward):
        print(f"upward: {use}")
    for use in in_circle:
        print(f"in a circle: {use}")
    print(f"{len(upward)} upward uses, {len(in_circle)} in circles, of {len(objects)} objects")
    return bool(upward or in_circle)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
