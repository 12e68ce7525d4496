#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every constant of the product that is a time is in the table of docs/threads.md, with its value and its file, and nothing else is.

Usage: times.py SOURCE_DIR
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
defined = {}
for folder in "plugin", "transports", "include/nccl_net":
    for file in sorted((root / folder).rglob("*.[ch]")):
        for name, value in re.findall(r"^#define\s+(\w+_(?:NS|US|MS))\s+(\d+)\b", file.read_text(), re.M):
            defined[name, str(file.relative_to(root))] = value

documented = {(name, file): value for name, value, file in re.findall(
    r"^\| `(\w+)` \| (\d+) \| `([^`]+)` \| .+ \|$", (root / "docs/threads.md").read_text(), re.M)}

wrong = [f"{file}: {name} {value} is not in docs/threads.md, or has another value there"
         for (name, file), value in defined.items() if documented.get((name, file)) != value]
wrong += [f"docs/threads.md: {file} does not define {name}" for name, file in documented if (name, file) not in defined]
print("\n".join(wrong) or f"{len(defined)} times")
sys.exit(bool(wrong) or not defined)
